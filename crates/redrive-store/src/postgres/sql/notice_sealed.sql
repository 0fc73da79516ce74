SELECT id, value, space || chr(31) || name FROM redrive.notice WHERE id > $1 ORDER BY id LIMIT $2
