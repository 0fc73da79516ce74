UPDATE redrive_item SET outcome = ?3, fingerprint = ?4 WHERE run_id = ?1 AND job_id = ?2 AND outcome = 0
