SELECT 'key record ' || id || ' is in state ' || state || ', which there is not' FROM idempotency_keys WHERE state NOT IN (0, 1, 2)
UNION ALL
SELECT 'key record ' || id || ' is ' || CASE WHEN leased_until IS NULL THEN 'in progress and held by nobody'
                                             ELSE 'held by somebody and not in progress' END
FROM idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (leased_until IS NOT NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and ' || CASE WHEN ended_at IS NULL THEN 'not over' ELSE 'over' END
FROM idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (ended_at IS NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and ' || CASE WHEN expires_at IS NULL THEN 'never forgotten' ELSE 'forgotten' END
FROM idempotency_keys WHERE state IN (0, 1, 2) AND (state = 0) <> (expires_at IS NULL)
UNION ALL
SELECT 'key record ' || id || ' is in state ' || state || ' and has ' || CASE WHEN state = 1 THEN 'no whole answer' ELSE 'an answer' END
FROM idempotency_keys
WHERE state = 1 AND (response_status IS NULL OR response_headers IS NULL)
   OR state IN (0, 2) AND (response_status IS NOT NULL OR response_headers IS NOT NULL OR response_body IS NOT NULL)
UNION ALL
SELECT 'key record ' || k.id || ' is ahead of the next number ' || s.next_event FROM idempotency_keys k, store s
WHERE k.id >= s.next_event OR k.incarnation >= s.next_event
