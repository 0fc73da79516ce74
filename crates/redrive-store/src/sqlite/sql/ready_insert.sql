INSERT INTO ready (lane_id, rank, run_at, job_id) VALUES (?1, ?2, ?3, ?4)
