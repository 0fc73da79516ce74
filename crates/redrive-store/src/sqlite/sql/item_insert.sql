INSERT INTO redrive_item (run_id, job_id, step, outcome) VALUES (?1, ?2, ?3, 0)
