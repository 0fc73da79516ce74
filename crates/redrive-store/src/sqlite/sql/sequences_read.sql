SELECT next_job, next_event, key_epoch FROM store
