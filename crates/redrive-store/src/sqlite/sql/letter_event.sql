SELECT event FROM dead_letter WHERE job_id = ?1
