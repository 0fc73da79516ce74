SELECT 'key ' || u.key || ' belongs to job_' || u.job_id || ', which is not unfinished'
FROM redrive.unique_job u LEFT JOIN redrive.job j ON j.id = u.job_id
WHERE j.id IS NULL OR j.unique_key <> u.key OR EXISTS (SELECT 1 FROM redrive.dead_letter d WHERE d.job_id = u.job_id)
UNION ALL
SELECT 'job_' || j.id || ' is unfinished and its key is free' FROM redrive.job j
WHERE j.unique_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM redrive.dead_letter d WHERE d.job_id = j.id)
  AND NOT EXISTS (SELECT 1 FROM redrive.unique_job u WHERE u.job_id = j.id)
