SELECT id, note, subject FROM escalation_ack WHERE id > ?1 ORDER BY id LIMIT ?2
