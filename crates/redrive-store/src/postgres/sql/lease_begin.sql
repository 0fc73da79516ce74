UPDATE redrive.lease l SET attempts = b.attempts, begun_at = b.begun_at, event = b.event
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS b (job_id, attempts, begun_at, event)
WHERE l.job_id = b.job_id
