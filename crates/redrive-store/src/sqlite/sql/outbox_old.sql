SELECT id, length(call) FROM outbox WHERE state = 1 AND ended_at < ?1 ORDER BY ended_at LIMIT ?2
