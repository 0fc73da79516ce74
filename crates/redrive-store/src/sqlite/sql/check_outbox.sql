SELECT 'outbox item ' || id || ' is in state ' || state || ', which there is not' FROM outbox WHERE state NOT IN (0, 1, 2)
UNION ALL
SELECT 'outbox item ' || id || ' is in state ' || state || ' and ' || CASE WHEN ended_at IS NULL THEN 'not over' ELSE 'over' END
FROM outbox WHERE state IN (0, 1, 2) AND (state = 0) <> (ended_at IS NULL)
UNION ALL
SELECT 'outbox item ' || id || ' counts ' || sends || ' sends' || CASE WHEN sent_at IS NULL THEN ' and was never sent' ELSE '' END
FROM outbox WHERE sends < 0 OR sends > 0 AND sent_at IS NULL OR sends = 0 AND state <> 0
UNION ALL
SELECT 'outbox item ' || o.id || ' is ahead of the next number ' || s.next_event FROM outbox o, store s WHERE o.id >= s.next_event
