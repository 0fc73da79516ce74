SELECT 'the letter of job_' || d.job_id || ' has no report' FROM dead_letter d
WHERE NOT EXISTS (SELECT 1 FROM letter_report r WHERE r.job_id = d.job_id)
UNION ALL
SELECT 'there is a report of job_' || r.job_id || ', which is no letter' FROM letter_report r
WHERE NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.job_id = r.job_id)
