-- The next stretch of events, those of living jobs and letters and of tasks that run included: the caller leaves them.
SELECT e.seq, coalesce(e.imported_at, e.at), e.status,
       e.job_id IS NOT NULL AND EXISTS (SELECT 1 FROM job j WHERE j.id = e.job_id)
       OR e.caller_id IS NOT NULL AND e.caller_id IN (SELECT 'task-' || t.id FROM task t WHERE t.state = 0)
FROM event e WHERE e.seq > ?1 ORDER BY e.seq LIMIT ?2
