INSERT INTO redrive.name (text) VALUES ($1) ON CONFLICT (text) DO NOTHING
