SELECT 'job_' || r.job_id || ' is reserved for worker_' || -r.lane_id || ', who is not known'
FROM redrive.ready r WHERE r.lane_id < 0 AND NOT EXISTS (SELECT 1 FROM redrive.worker w WHERE w.id = -r.lane_id)
