SELECT job_id FROM event WHERE seq = ?1
