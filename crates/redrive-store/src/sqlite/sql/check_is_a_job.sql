SELECT what || ' of job_' || job_id || ', which does not exist' FROM (
    SELECT 'ready row' AS what, job_id FROM ready UNION ALL SELECT 'lease', job_id FROM lease
    UNION ALL SELECT 'letter', job_id FROM dead_letter UNION ALL SELECT 'progress', job_id FROM progress
) WHERE job_id NOT IN (SELECT id FROM job)
