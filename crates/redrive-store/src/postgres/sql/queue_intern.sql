INSERT INTO redrive.queue (name) VALUES ($1) ON CONFLICT (name) DO NOTHING
