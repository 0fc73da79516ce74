-- As long as there is an item with it, sent or not, the same save must find it again. What another sweeper has taken hold of is left to it.
SELECT s.name FROM redrive.saved_key s
WHERE s.created_at < $1 AND NOT EXISTS (SELECT 1 FROM redrive.outbox o WHERE o.key = s.key)
ORDER BY s.created_at LIMIT $2
FOR UPDATE OF s SKIP LOCKED
