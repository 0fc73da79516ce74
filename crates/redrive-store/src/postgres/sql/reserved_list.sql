-- What waits for these workers alone, and whether it is a closure of theirs. One that was redriven is carried out by a
-- handler of its name, which any process may have.
SELECT -r.lane_id, r.rank, r.run_at, r.job_id, j.lane_id, j.inline AND coalesce(p.redrives, 0) = 0
FROM redrive.ready r JOIN redrive.job j ON j.id = r.job_id LEFT JOIN redrive.progress p ON p.job_id = r.job_id
WHERE r.lane_id IN (SELECT -w FROM unnest($1::bigint[]) AS w) LIMIT $2
