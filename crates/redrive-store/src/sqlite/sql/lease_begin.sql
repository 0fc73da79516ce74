UPDATE lease SET begun_at = ?3, attempts = ?2, event = ?4 WHERE job_id = ?1
