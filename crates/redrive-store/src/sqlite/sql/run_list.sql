SELECT id, created_at, wanted_by, plan, progress, state, why, version, held_until, ended_at, moved, skipped
FROM redrive_run WHERE state = 0 OR NOT ?1 ORDER BY id DESC LIMIT ?2
