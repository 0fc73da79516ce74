-- Takes keys, each with a number for its job. Those that are taken are not answered.
INSERT INTO redrive.unique_job (queue_id, key, job_id)
SELECT k.queue_id, k.key, nextval('redrive.job_number')
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS k (queue_id, key, at) ORDER BY k.at
ON CONFLICT (queue_id, key) DO NOTHING RETURNING queue_id, key, job_id
