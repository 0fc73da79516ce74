DELETE FROM progress WHERE job_id = ?1
