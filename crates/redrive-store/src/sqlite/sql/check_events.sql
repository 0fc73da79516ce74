SELECT what || ' of job_' || job_id || ' names event ' || event || ', which does not exist' FROM (
    SELECT 'the enqueuing' AS what, id AS job_id, event FROM job UNION ALL SELECT 'the lease', job_id, event FROM lease
    UNION ALL SELECT 'the progress', job_id, event FROM progress UNION ALL SELECT 'the letter', job_id, event FROM dead_letter
    UNION ALL SELECT 'the end', job_id, event FROM ended
) x WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = x.event AND e.job_id = x.job_id)
