-- Every event of a job follows another one, and none is followed by two.
SELECT 'event ' || e.parent || ' of job_' || e.job_id || ' is followed by ' || count(*) || ' events'
FROM redrive.event e JOIN redrive.event p ON p.seq = e.parent AND p.job_id = e.job_id
WHERE e.job_id IS NOT NULL AND e.lane_id IS NOT NULL GROUP BY e.job_id, e.parent HAVING count(*) > 1
