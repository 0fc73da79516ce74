DELETE FROM redrive.job WHERE id = ANY ($1)
