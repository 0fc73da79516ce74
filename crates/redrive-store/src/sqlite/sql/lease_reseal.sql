UPDATE lease SET cancel_why = ?2 WHERE job_id = ?1
