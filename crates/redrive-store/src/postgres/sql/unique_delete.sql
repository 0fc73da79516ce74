DELETE FROM redrive.unique_job u USING unnest($1::bigint[], $2::text[], $3::bigint[]) AS k (queue_id, key, job_id)
WHERE u.queue_id = k.queue_id AND u.key = k.key AND u.job_id = k.job_id
