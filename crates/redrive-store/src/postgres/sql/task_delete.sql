DELETE FROM redrive.task WHERE id = ANY ($1)
