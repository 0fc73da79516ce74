-- Whether there is something to sweep.
(SELECT 1 FROM redrive.outbox WHERE state = 1 AND ended_at < $1 LIMIT 1)
UNION ALL
(SELECT 1 FROM redrive.saved_key s WHERE s.created_at < $1 AND NOT EXISTS (SELECT 1 FROM redrive.outbox o WHERE o.key = s.key) LIMIT 1)
LIMIT 1
