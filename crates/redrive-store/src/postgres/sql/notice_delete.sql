DELETE FROM redrive.notice WHERE id = ANY ($1)
