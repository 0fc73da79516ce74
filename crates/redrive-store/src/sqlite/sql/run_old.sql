-- The newest stays, so that its number is not given again.
DELETE FROM redrive_run WHERE id IN (
    SELECT id FROM redrive_run WHERE state <> 0 AND ended_at < ?1 AND id < (SELECT max(id) FROM redrive_run) LIMIT ?2)
RETURNING id
