-- The next stretch of events, those of living jobs and letters included: the caller leaves them.
SELECT e.seq, coalesce(e.imported_at, e.at), e.job_id IS NOT NULL AND EXISTS (SELECT 1 FROM redrive.job j WHERE j.id = e.job_id)
FROM redrive.event e WHERE e.seq > $1 ORDER BY e.seq LIMIT $2
