UPDATE lease SET fence = ?5, worker_id = ?2, expires_at = ?3 + ?4, lease_for_ms = ?4 WHERE job_id = ?1
