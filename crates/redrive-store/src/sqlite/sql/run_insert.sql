INSERT INTO redrive_run (created_at, wanted_by, plan, progress, state, version) VALUES (?1, ?2, ?3, ?4, 0, 1)
