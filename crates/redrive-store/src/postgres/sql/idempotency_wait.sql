-- The same for who waits, inside a transaction of somebody else.
SELECT k.id, k.principal, k.key, k.endpoint, k.request_hash, k.state, k.incarnation, k.leased_until, k.expires_at, k.job_id, k.created_at,
       k.ended_at
FROM redrive.idempotency_keys k WHERE k.id = $1 FOR UPDATE
