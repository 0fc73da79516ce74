INSERT INTO redrive_run (created_at, wanted_by, plan, progress, moved, skipped, state, version)
VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 1)
