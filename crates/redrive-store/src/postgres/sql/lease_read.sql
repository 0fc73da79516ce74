-- Leases that are about to begin, kept from others until that is written.
SELECT l.job_id, l.fence, l.lane_id, l.source_id, l.attempts, l.retries, l.event, l.begun_at IS NOT NULL, j.deadline_at,
       j.caller_id
FROM redrive.lease l JOIN redrive.job j ON j.id = l.job_id WHERE l.job_id = ANY ($1) ORDER BY l.job_id FOR UPDATE OF l
