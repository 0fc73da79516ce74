UPDATE lease SET cancel_requested = 1 WHERE job_id = ?1
