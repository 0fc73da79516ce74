SELECT id, payload, overrides FROM redrive.job WHERE id > $1 ORDER BY id LIMIT $2
