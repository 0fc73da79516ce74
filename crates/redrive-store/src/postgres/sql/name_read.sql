SELECT id, text FROM redrive.name WHERE id = ANY ($1)
