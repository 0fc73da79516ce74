SELECT 1 FROM redrive_item WHERE run_id = ?1 AND job_id = ?2
