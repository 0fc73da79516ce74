SELECT store_id, next_job, next_event, events, failed_events, pruned_to, key_epoch FROM store
