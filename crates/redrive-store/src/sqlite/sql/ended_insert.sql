INSERT INTO ended (job_id, event) VALUES (?1, ?2)
