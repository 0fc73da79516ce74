DELETE FROM event_alias WHERE seq = ?1
