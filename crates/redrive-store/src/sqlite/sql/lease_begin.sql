UPDATE lease SET begun_at = ?3, attempts = attempts + 1, event = ?4
WHERE job_id = ?1 AND fence = ?2 AND begun_at IS NULL
