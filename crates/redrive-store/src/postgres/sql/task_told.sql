SELECT id, name, state, ended_at, why, report
FROM redrive.task WHERE state IN (2, 3) AND (ended_at, id) < ($1, $2)
ORDER BY ended_at DESC, id DESC LIMIT $3
