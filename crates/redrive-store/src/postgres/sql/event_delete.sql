DELETE FROM redrive.event WHERE seq = ANY ($1) RETURNING seq, job_id, imported_at IS NOT NULL, status
