SELECT run_id FROM dead_letter WHERE job_id = ?1
