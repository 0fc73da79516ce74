DELETE FROM redrive.payload_version WHERE job_id = ANY ($1)
