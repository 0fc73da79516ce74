INSERT INTO redrive.task (id, created_at, name, place, subtasks, waiting, started, succeeded, failed, skipped, cancelled, progress,
                          state, version, event)
VALUES ($1, $2, $3, $4, $5, $5, 0, 0, 0, 0, 0, $6, 0, 1, $7)
