-- As long as there is an item with it, sent or not, the same save must find it again.
SELECT s.name FROM saved_key s
WHERE s.created_at < ?1 AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.key = s.key)
ORDER BY s.created_at LIMIT ?2
