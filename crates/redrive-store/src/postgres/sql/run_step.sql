-- Only for who knows the version, and only while the run goes on.
UPDATE redrive.redrive_run
SET progress = $3, state = $4, why = $5, version = version + 1, ended_at = $6,
    held_by = CASE WHEN $4 = 0 THEN held_by END, held_until = CASE WHEN $4 = 0 THEN held_until END
WHERE id = $1 AND version = $2 AND state = 0
