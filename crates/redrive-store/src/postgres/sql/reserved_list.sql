-- What waits for these workers alone, so many of each, and whether it is a closure of theirs. One that was redriven is carried out by a
-- handler of its name, which any process may have.
SELECT -r.lane_id, r.rank, r.run_at, r.job_id, j.lane_id, j.inline AND coalesce(p.redrives, 0) = 0
FROM unnest($1::bigint[]) AS w (id)
     CROSS JOIN LATERAL (SELECT o.lane_id, o.rank, o.run_at, o.job_id FROM redrive.ready o WHERE o.lane_id = -w.id
                         ORDER BY o.rank, o.run_at, o.job_id LIMIT $2) r
     JOIN redrive.job j ON j.id = r.job_id LEFT JOIN redrive.progress p ON p.job_id = r.job_id
ORDER BY w.id, r.rank, r.run_at, r.job_id
