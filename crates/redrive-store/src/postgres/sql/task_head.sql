-- What a step must know; nothing that may be long. Whoever else moves the task on waits here, and is undone.
SELECT name, subtasks, waiting, started, succeeded, failed, skipped, cancelled, state, version, event
FROM redrive.task WHERE id = $1 FOR NO KEY UPDATE
