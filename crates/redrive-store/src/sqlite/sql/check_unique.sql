SELECT 'key ' || u.key || ' belongs to job_' || u.job_id || ', which is not unfinished'
FROM unique_job u LEFT JOIN job j ON j.id = u.job_id
WHERE j.id IS NULL OR j.unique_key <> u.key OR u.job_id IN (SELECT job_id FROM dead_letter)
UNION ALL
SELECT 'job_' || j.id || ' is unfinished and its key is free' FROM job j
WHERE j.unique_key IS NOT NULL AND j.id NOT IN (SELECT job_id FROM dead_letter)
  AND j.id NOT IN (SELECT job_id FROM unique_job)
