WITH place AS (
    SELECT job_id FROM redrive.ready UNION ALL SELECT job_id FROM redrive.lease UNION ALL SELECT job_id FROM redrive.dead_letter
)
SELECT 'job_' || j.id || ' is in ' || count(p.job_id) || ' places'
FROM redrive.job j LEFT JOIN place p ON p.job_id = j.id GROUP BY j.id HAVING count(p.job_id) <> 1
