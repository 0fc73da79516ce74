SELECT job_id, error_message FROM redrive.dead_letter WHERE job_id > $1 ORDER BY job_id LIMIT $2
