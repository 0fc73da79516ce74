SELECT id, at, origin, line, why, text FROM redrive.aside WHERE id > $1 ORDER BY id LIMIT $2
