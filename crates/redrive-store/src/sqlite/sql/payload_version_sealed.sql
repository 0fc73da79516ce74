SELECT id, payload FROM payload_version WHERE id > ?1 ORDER BY id LIMIT ?2
