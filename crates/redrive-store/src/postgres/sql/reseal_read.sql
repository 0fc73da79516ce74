SELECT key_id, step, reached, cells, horizon <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM redrive.reseal
