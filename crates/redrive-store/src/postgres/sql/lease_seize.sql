UPDATE redrive.lease l SET fence = s.fence, worker_id = $3, expires_at = $4, lease_for_ms = $5
FROM unnest($1::bigint[], $2::bigint[]) AS s (job_id, fence) WHERE l.job_id = s.job_id
