-- A page of the runs that go on, and whether somebody else has each.
SELECT id, version, held_by IS NOT NULL AND held_by <> $2 AND held_until > coalesce($1, redrive.now_ms())
FROM redrive.redrive_run WHERE state = 0 AND id > $3 ORDER BY id LIMIT $4
