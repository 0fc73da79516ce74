SELECT id, value, space || char(31) || name FROM notice WHERE id > ?1 ORDER BY id LIMIT ?2
