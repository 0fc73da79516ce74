INSERT INTO redrive.operation (id, at) VALUES ($1::text::uuid, $2)
