SELECT id, note, subject FROM redrive.escalation_ack WHERE id > $1 ORDER BY id LIMIT $2
