SELECT j.lane_id, p.held_for, j.rank, coalesce(p.run_at, j.run_at)
FROM job j LEFT JOIN progress p ON p.job_id = j.id WHERE j.id = ?1
