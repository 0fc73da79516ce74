DELETE FROM event WHERE seq = ?1 RETURNING job_id, imported_at IS NOT NULL
