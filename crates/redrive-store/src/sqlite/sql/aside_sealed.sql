SELECT id, why, text FROM aside WHERE id > ?1 ORDER BY id LIMIT ?2
