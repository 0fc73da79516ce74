SELECT id, lane, key, call, state, sends, created_at, not_before, sent_at, ended_at, last, last_status
FROM outbox WHERE lane = ?1 AND state = 0 ORDER BY id LIMIT 1
