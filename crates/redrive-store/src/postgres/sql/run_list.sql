SELECT id, created_at, wanted_by, plan, progress, state, why, version, held_until, ended_at, moved, skipped
FROM redrive.redrive_run ORDER BY id DESC LIMIT $1
