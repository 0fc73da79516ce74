INSERT INTO idempotency_keys (id, principal, key, endpoint, request_hash, state, incarnation, leased_until, job_id, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, 0, ?1, ?6, ?7, ?8)
