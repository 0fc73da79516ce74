-- The newest stays, so that its number is not given again.
SELECT id, subtasks FROM task WHERE state <> 0 AND ended_at < ?1 AND id < (SELECT max(id) FROM task) ORDER BY ended_at LIMIT ?2
