-- Leases are as many as there are slots: looking at all of them is no scan of what grows. What another reaper is taking is
-- left to it.
SELECT job_id, worker_id, begun_at IS NOT NULL, fence, event, cancel_why IS NOT NULL
FROM redrive.lease WHERE expires_at <= $1 ORDER BY expires_at, job_id LIMIT $2 FOR UPDATE SKIP LOCKED
