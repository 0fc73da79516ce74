INSERT INTO redrive.ended (job_id, event) SELECT * FROM unnest($1::bigint[], $2::bigint[])
