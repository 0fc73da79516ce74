SELECT seq, job_id FROM redrive.event WHERE seq = ANY ($1)
