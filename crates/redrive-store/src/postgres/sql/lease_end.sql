-- Its fence is compared by the protocol: a worker that lost its lease must not win. Kept from others until that is decided.
SELECT l.job_id, l.fence, l.lane_id, l.source_id, l.attempts, l.retries, l.crashes, l.flags, l.event,
       l.begun_at IS NOT NULL, l.cancel_why, j.caller_id, j.unique_key, j.rank, p.held_for, p.fingerprint, p.run_id,
       p.redriven_at
FROM redrive.lease l JOIN redrive.job j ON j.id = l.job_id LEFT JOIN redrive.progress p ON p.job_id = l.job_id
WHERE l.job_id = ANY ($1) ORDER BY l.job_id FOR UPDATE OF l
