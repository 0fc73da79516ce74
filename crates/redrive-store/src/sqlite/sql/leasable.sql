-- A job with what it has been through so far.
SELECT j.payload, j.enqueued_at, j.rank, j.source_id, j.event, j.policy, j.overrides, j.caller_id, j.idempotency_key,
       j.unique_key, j.timeout_ms, j.deadline_at, j.origin, j.inline, j.lane_id,
       p.fence, p.attempts, p.retries, p.crashes, p.last_delay_ms, p.hint, p.event
FROM job j LEFT JOIN progress p ON p.job_id = j.id WHERE j.id = ?1
