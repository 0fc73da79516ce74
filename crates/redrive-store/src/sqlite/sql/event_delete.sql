DELETE FROM event WHERE seq = ?1 RETURNING job_id, detail
