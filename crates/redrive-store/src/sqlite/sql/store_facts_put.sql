UPDATE store SET store_id = ?1, next_job = max(next_job, ?2), next_event = max(next_event, ?3), events = ?4, failed_events = ?5,
                 pruned_to = ?6, key_epoch = ?7
