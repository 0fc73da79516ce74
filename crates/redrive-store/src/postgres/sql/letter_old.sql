-- A letter from elsewhere is kept from its coming on, however long it had been dead there.
SELECT d.job_id FROM redrive.dead_letter d LEFT JOIN redrive.event e ON e.seq = d.event
WHERE d.died_at < $1 AND coalesce(e.imported_at, d.died_at) < $1 ORDER BY d.died_at, d.job_id LIMIT $2
