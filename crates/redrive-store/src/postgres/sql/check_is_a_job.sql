SELECT what || ' of job_' || job_id || ', which does not exist' FROM (
    SELECT 'ready row' AS what, job_id FROM redrive.ready UNION ALL SELECT 'lease', job_id FROM redrive.lease
    UNION ALL SELECT 'letter', job_id FROM redrive.dead_letter UNION ALL SELECT 'progress', job_id FROM redrive.progress
) x WHERE NOT EXISTS (SELECT 1 FROM redrive.job j WHERE j.id = x.job_id)
