-- What a step must know; nothing that may be long.
SELECT name, subtasks, waiting, started, succeeded, failed, skipped, cancelled, state, version, event FROM task WHERE id = ?1
