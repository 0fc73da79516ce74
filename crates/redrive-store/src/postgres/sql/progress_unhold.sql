UPDATE redrive.progress SET held_for = NULL WHERE job_id = ANY ($1)
