SELECT coalesce(max(version), 0) FROM payload_version WHERE job_id = ?1
