SELECT event_id, seq FROM redrive.event_alias WHERE event_id = ANY ($1)
