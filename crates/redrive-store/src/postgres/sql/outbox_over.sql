-- Whether there is something to sweep.
SELECT 1 FROM redrive.outbox WHERE state = 1 AND ended_at < $1 LIMIT 1
