DELETE FROM redrive.lease WHERE job_id = ANY ($1)
