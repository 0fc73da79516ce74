SELECT id, created_at, wanted_by, plan, progress, state, why, version, held_until, ended_at, moved, skipped
FROM redrive_run WHERE id = ?1
