SELECT id FROM redrive.outbox WHERE state = 2 AND id > $1 ORDER BY id LIMIT $2
