UPDATE redrive.lease l SET expires_at = coalesce(t.at, redrive.now_ms()) + l.lease_for_ms
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS t (job_id, fence, at)
WHERE l.job_id = t.job_id AND l.fence = t.fence RETURNING l.job_id, l.fence, l.cancel_why IS NOT NULL
