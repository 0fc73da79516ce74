DELETE FROM redrive.event_alias WHERE seq = ANY ($1)
