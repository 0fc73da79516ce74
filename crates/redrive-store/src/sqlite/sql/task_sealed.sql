SELECT id, progress, why, report FROM task WHERE id > ?1 ORDER BY id LIMIT ?2
