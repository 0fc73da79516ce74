INSERT INTO redrive.saved_key (name, key, created_at) VALUES ($1, $2, $3)
