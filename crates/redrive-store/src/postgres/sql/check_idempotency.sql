SELECT 'key record ' || id || ' is in state ' || state || ', which there is not' FROM redrive.idempotency_keys WHERE state NOT IN (0, 1, 2)
UNION ALL
SELECT 'key record ' || id || ' is ' || CASE WHEN leased_until IS NULL THEN 'in progress and held by nobody'
                                             ELSE 'held by somebody and not in progress' END
FROM redrive.idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (leased_until IS NOT NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and ' || CASE WHEN ended_at IS NULL THEN 'not over' ELSE 'over' END
FROM redrive.idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (ended_at IS NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and ' || CASE WHEN expires_at IS NULL THEN 'never forgotten' ELSE 'forgotten' END
FROM redrive.idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (expires_at IS NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and has ' || CASE WHEN state = 1 THEN 'no whole answer' ELSE 'an answer' END
FROM redrive.idempotency_keys
WHERE state = 1 AND (response_status IS NULL OR response_headers IS NULL)
   OR state IN (0, 2) AND (response_status IS NOT NULL OR response_headers IS NOT NULL OR response_body IS NOT NULL)
UNION ALL
SELECT 'key record ' || k.id || ' is ahead of the next number ' || s.next
FROM redrive.idempotency_keys k,
     (SELECT s.event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20) AS next FROM redrive.store s) s
WHERE k.id >= s.next OR k.incarnation >= s.next
