SELECT what || ' of job_' || job_id || ' names event ' || event || ', which does not exist' FROM (
    SELECT 'the enqueuing' AS what, id AS job_id, event FROM redrive.job UNION ALL SELECT 'the lease', job_id, event FROM redrive.lease
    UNION ALL SELECT 'the progress', job_id, event FROM redrive.progress UNION ALL SELECT 'the letter', job_id, event FROM redrive.dead_letter
    UNION ALL SELECT 'the end', job_id, event FROM redrive.ended
) x WHERE NOT EXISTS (SELECT 1 FROM redrive.event e WHERE e.seq = x.event AND e.job_id = x.job_id)
