-- A job without what its handler gets.
SELECT j.id, j.enqueued_at, coalesce(p.run_at, j.run_at), coalesce(p.run_at, j.run_at) > coalesce($2::bigint, redrive.now_ms()), j.rank, j.policy, j.caller_id,
       j.unique_key, j.origin, coalesce(l.attempts, d.attempts, p.attempts, 0), coalesce(d.retries, p.retries, 0),
       coalesce(d.crashes, p.crashes, 0), p.held_for, l.worker_id, l.expires_at, l.begun_at, l.cancel_why IS NOT NULL,
       d.job_id IS NOT NULL, j.target, j.lane_id
FROM redrive.job j LEFT JOIN redrive.lease l ON l.job_id = j.id LEFT JOIN redrive.dead_letter d ON d.job_id = j.id
     LEFT JOIN redrive.progress p ON p.job_id = j.id
WHERE j.id = ANY ($1) ORDER BY j.id DESC
