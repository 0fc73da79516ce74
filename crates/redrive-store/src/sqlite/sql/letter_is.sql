SELECT 1 FROM dead_letter WHERE job_id = ?1
