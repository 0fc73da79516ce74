SELECT id, call, last FROM redrive.outbox WHERE id > $1 ORDER BY id LIMIT $2
