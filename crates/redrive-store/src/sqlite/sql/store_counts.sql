SELECT events, failed_events FROM store
