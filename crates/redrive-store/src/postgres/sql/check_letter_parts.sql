SELECT 'the letter of job_' || d.job_id || ' has no report' FROM redrive.dead_letter d
WHERE NOT EXISTS (SELECT 1 FROM redrive.letter_report r WHERE r.job_id = d.job_id)
UNION ALL
SELECT 'there is a report of job_' || r.job_id || ', which is no letter' FROM redrive.letter_report r
WHERE NOT EXISTS (SELECT 1 FROM redrive.dead_letter d WHERE d.job_id = r.job_id)
