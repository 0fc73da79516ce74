SELECT 'job_' || i.job_id || ' was put back by redrive_' || i.run_id || ', which does not exist' FROM redrive.redrive_item i
WHERE NOT EXISTS (SELECT 1 FROM redrive.redrive_run r WHERE r.id = i.run_id)
UNION ALL
SELECT 'a payload of job_' || v.job_id || ' was replaced, which does not exist' FROM redrive.payload_version v
WHERE NOT EXISTS (SELECT 1 FROM redrive.job j WHERE j.id = v.job_id)
