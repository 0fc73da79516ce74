SELECT u.queue_id, u.key, u.job_id FROM redrive.unique_job u
     JOIN unnest($1::bigint[], $2::text[]) AS k (queue_id, key) ON u.queue_id = k.queue_id AND u.key = k.key
