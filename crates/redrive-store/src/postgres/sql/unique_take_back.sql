-- Takes keys for jobs that have a number already. Those that are taken stay as they are.
INSERT INTO redrive.unique_job (queue_id, key, job_id)
SELECT k.queue_id, k.key, k.job_id
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (queue_id, key, job_id, at) ORDER BY k.at
ON CONFLICT (queue_id, key) DO NOTHING
