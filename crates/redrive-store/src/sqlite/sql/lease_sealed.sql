SELECT job_id, cancel_why FROM lease WHERE job_id > ?1 ORDER BY job_id LIMIT ?2
