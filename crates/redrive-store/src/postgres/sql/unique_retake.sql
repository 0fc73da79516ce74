-- For letters that come back. Those whose key is taken stay without.
INSERT INTO redrive.unique_job (queue_id, key, job_id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT (queue_id, key) DO NOTHING
