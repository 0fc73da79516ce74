DELETE FROM event_alias WHERE event_id = ?1
