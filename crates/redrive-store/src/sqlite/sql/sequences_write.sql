UPDATE store SET next_job = ?1, next_event = ?2, events = events + ?3, failed_events = failed_events + ?4
