DELETE FROM redrive.progress WHERE job_id = ANY ($1)
