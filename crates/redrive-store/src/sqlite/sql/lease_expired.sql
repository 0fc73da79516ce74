-- Leases are as many as there are slots: looking at all of them is no scan of what grows.
SELECT job_id, worker_id, lane_id, begun_at IS NOT NULL, fence, attempts, retries, crashes, source_id, flags, event
FROM lease WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
