INSERT INTO redrive.ready (lane_id, rank, run_at, job_id)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
