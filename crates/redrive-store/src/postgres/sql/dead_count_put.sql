INSERT INTO redrive.dead_count (cause, letters) VALUES ($1, $2)
