SELECT 'job_' || r.job_id || ' is reserved for worker_' || -r.lane_id || ', who is not known'
FROM ready r WHERE r.lane_id < 0 AND -r.lane_id NOT IN (SELECT id FROM worker)
