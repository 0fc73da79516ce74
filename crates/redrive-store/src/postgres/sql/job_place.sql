-- Where a job waits: as its record says, and only if it does wait there.
SELECT p.held_for, j.rank, coalesce(p.run_at, j.run_at)
FROM redrive.job j LEFT JOIN redrive.progress p ON p.job_id = j.id
     JOIN redrive.ready r ON r.lane_id = coalesce(-p.held_for, j.lane_id) AND r.rank = j.rank
                         AND r.run_at = coalesce(p.run_at, j.run_at) AND r.job_id = j.id
WHERE j.id = $1
