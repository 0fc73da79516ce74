DELETE FROM redrive.outbox WHERE id = ANY ($1)
