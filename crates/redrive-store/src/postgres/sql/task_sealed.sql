SELECT id, progress, why, report FROM redrive.task WHERE id > $1 ORDER BY id LIMIT $2
