SELECT 'job_' || i.job_id || ' was put back by redrive_' || i.run_id || ', which does not exist' FROM redrive_item i
WHERE NOT EXISTS (SELECT 1 FROM redrive_run r WHERE r.id = i.run_id)
UNION ALL
SELECT 'there is a payload of job_' || v.job_id || ', which does not exist' FROM payload_version v
WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = v.job_id)
