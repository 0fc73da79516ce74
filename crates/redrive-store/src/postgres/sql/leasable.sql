-- A job with what it has been through so far.
SELECT j.payload, j.enqueued_at, j.rank, j.source_id, j.event, j.policy, j.overrides, j.caller_id, j.idempotency_key,
       j.unique_key, j.timeout_ms, j.deadline_at, j.origin,
       -- Redriven, it is carried out by a handler of its name, which any process may have.
       j.inline AND coalesce(p.redrives, 0) = 0, j.lane_id,
       p.fence, p.attempts, p.retries, p.crashes, p.last_delay_ms, p.hint, p.event, j.id,
       p.fingerprint, p.run_id, p.redriven_at, j.target
FROM redrive.job j LEFT JOIN redrive.progress p ON p.job_id = j.id WHERE j.id = ANY ($1)
