-- What was seen then is as old as that. The newest task stays, and is not to be seen for the first time again.
DELETE FROM redrive.escalation_ack WHERE id = ANY (ARRAY(
    SELECT a.id FROM redrive.escalation_ack a
    WHERE a.at < $1 AND a.subject <> coalesce((SELECT 'task-' || max(t.id) FROM redrive.task t), '') ORDER BY a.at LIMIT $2))
