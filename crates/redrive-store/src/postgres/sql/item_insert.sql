INSERT INTO redrive.redrive_item (run_id, job_id, step, outcome) SELECT $1, j.id, $3, 0 FROM unnest($2::bigint[]) AS j (id)
