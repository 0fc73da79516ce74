SELECT job_id, hint FROM progress WHERE job_id > ?1 ORDER BY job_id LIMIT ?2
