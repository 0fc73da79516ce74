SELECT 'job_' || r.job_id || ' is ready in lane ' || r.lane_id || ' at ' || r.run_at || ', its record says otherwise'
FROM redrive.ready r JOIN redrive.job j ON j.id = r.job_id LEFT JOIN redrive.progress p ON p.job_id = r.job_id
WHERE r.run_at <> coalesce(p.run_at, j.run_at) OR r.rank <> j.rank OR r.lane_id <> coalesce(-p.held_for, j.lane_id)
