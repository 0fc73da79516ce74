DELETE FROM payload_version WHERE job_id = ?1
