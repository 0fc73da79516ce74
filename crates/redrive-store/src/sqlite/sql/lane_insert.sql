INSERT INTO lane (queue_id, kind) VALUES (?1, ?2)
