-- What was seen then is as old as that. The newest task stays, and is not to be seen for the first time again.
DELETE FROM escalation_ack WHERE id IN (
    SELECT id FROM escalation_ack WHERE at < ?1 AND subject <> coalesce((SELECT 'task-' || max(id) FROM task), '')
    ORDER BY at LIMIT ?2)
