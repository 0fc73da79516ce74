-- A job without what its handler gets.
SELECT j.id, j.enqueued_at, coalesce(p.run_at, j.run_at), coalesce(p.run_at, j.run_at) > ?2, j.rank, j.policy, j.caller_id,
       j.unique_key, j.origin, coalesce(l.attempts, d.attempts, p.attempts, 0), coalesce(d.retries, p.retries, 0),
       coalesce(d.crashes, p.crashes, 0), p.held_for, l.worker_id, l.expires_at, l.begun_at, l.cancel_why IS NOT NULL,
       d.job_id IS NOT NULL, j.target
FROM job j LEFT JOIN lease l ON l.job_id = j.id LEFT JOIN dead_letter d ON d.job_id = j.id
     LEFT JOIN progress p ON p.job_id = j.id
WHERE j.id = ?1
