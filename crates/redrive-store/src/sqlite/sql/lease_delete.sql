DELETE FROM lease WHERE job_id = ?1
