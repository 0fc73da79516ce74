DELETE FROM redrive.worker WHERE id = ANY ($1)
