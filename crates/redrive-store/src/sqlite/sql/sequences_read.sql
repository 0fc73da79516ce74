SELECT next_job, next_event FROM store
