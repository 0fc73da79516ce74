SELECT seq, at FROM redrive.event WHERE seq = ANY ($1) AND imported_at IS NULL
