INSERT INTO redrive.migration (number, name, oldest) VALUES ($1, $2, $3)
