INSERT INTO unique_job (queue_id, key, job_id) VALUES (?1, ?2, ?3)
