INSERT INTO redrive.reseal AS r (one, key_id, step, reached, cells, horizon)
VALUES (1, $1, $2, $3, $4, pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
ON CONFLICT (one) DO UPDATE SET key_id = excluded.key_id, step = excluded.step, reached = excluded.reached,
    cells = excluded.cells,
    -- A rotation to another key begins anew; the same one goes on.
    horizon = CASE WHEN r.key_id = excluded.key_id THEN r.horizon ELSE excluded.horizon END
