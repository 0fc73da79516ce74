SELECT event FROM ended WHERE job_id = ?1
