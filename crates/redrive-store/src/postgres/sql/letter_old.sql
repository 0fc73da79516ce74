SELECT job_id FROM redrive.dead_letter WHERE died_at < $1 ORDER BY died_at, job_id LIMIT $2
