SELECT id, call, last FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2
