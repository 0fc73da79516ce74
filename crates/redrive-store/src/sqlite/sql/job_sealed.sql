SELECT id, payload, overrides FROM job WHERE id > ?1 ORDER BY id LIMIT ?2
