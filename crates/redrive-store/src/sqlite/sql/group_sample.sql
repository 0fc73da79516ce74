SELECT job_id, error_message FROM dead_letter WHERE fingerprint = ?1 LIMIT 1
