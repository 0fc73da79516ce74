-- Tasks that were over before; the newest stays, as it does where its number would be given again.
SELECT t.id, t.subtasks FROM redrive.task t
WHERE t.state <> 0 AND t.ended_at < $1 AND t.id < (SELECT max(n.id) FROM redrive.task n) ORDER BY t.ended_at LIMIT $2
