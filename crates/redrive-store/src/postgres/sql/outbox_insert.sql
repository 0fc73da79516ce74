INSERT INTO redrive.outbox (id, lane, key, call, call_hash, state, sends, created_at, not_before)
VALUES ($1, $2, $3, $4, $5, 0, 0, $6, $6)
