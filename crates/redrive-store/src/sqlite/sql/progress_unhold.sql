UPDATE progress SET held_for = NULL WHERE job_id = ?1
