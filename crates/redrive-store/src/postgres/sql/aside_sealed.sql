SELECT id, why, text FROM redrive.aside WHERE id > $1 ORDER BY id LIMIT $2
