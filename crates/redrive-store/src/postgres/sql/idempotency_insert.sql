-- Takes keys that nobody has, each under a number of this transaction, in one order, so that two who want the same ones wait for each
-- other one way only. Those that somebody has are not answered, and none is while the store is about to move.
INSERT INTO redrive.idempotency_keys (id, principal, key, endpoint, request_hash, state, incarnation, leased_until, job_id, created_at)
SELECT n.first + c.at, c.principal, c.key, c.endpoint, c.request_hash, 0, n.first + c.at, coalesce(c.now, redrive.now_ms()) + c.hold_ms,
       c.job_id, coalesce(c.now, redrive.now_ms())
FROM (SELECT s.event_base + (pg_current_xact_id()::text::bigint << 20) - 1 AS first FROM redrive.store s) n,
     unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) WITH ORDINALITY
         AS c (principal, key, endpoint, request_hash, hold_ms, job_id, now, at)
WHERE NOT EXISTS (SELECT 1 FROM redrive.moving m WHERE m.state = 'draining' AND m.until > redrive.now_ms())
ORDER BY c.at
ON CONFLICT (principal, key) DO NOTHING RETURNING id, leased_until, created_at
