-- Since its last redrive a living job has begun as often as it was counted, less what was given back.
WITH redriven AS (
    SELECT job_id, max(seq) AS seq FROM redrive.event
    WHERE attempt = 0 AND importance = 4 AND lane_id IS NOT NULL GROUP BY job_id
), begun AS (
    SELECT e.job_id, count(*) FILTER (WHERE t.text = 'attempt_started')
                     - count(*) FILTER (WHERE t.text IN ('job_snoozed', 'job_released', 'job_parked') AND pt.text = 'attempt_started') AS attempts
    FROM redrive.event e JOIN redrive.name t ON t.id = e.type_id LEFT JOIN redrive.event p ON p.seq = e.parent
         LEFT JOIN redrive.name pt ON pt.id = p.type_id LEFT JOIN redriven r ON r.job_id = e.job_id
    WHERE e.job_id IN (SELECT id FROM redrive.job) AND e.lane_id IS NOT NULL AND e.seq > coalesce(r.seq, 0) GROUP BY e.job_id
), counted AS (
    SELECT j.id AS job_id, coalesce(l.attempts, d.attempts, p.attempts, 0) AS attempts
    FROM redrive.job j LEFT JOIN redrive.lease l ON l.job_id = j.id LEFT JOIN redrive.dead_letter d ON d.job_id = j.id
         LEFT JOIN redrive.progress p ON p.job_id = j.id
    -- What was tried elsewhere has no events here.
    WHERE NOT EXISTS (SELECT 1 FROM redrive.event e JOIN redrive.name t ON t.id = e.type_id
                      WHERE e.seq = d.event AND t.text = 'letter_imported')
)
SELECT 'job_' || c.job_id || ' counts ' || c.attempts || ' attempts, its events ' || coalesce(b.attempts, 0)
FROM counted c LEFT JOIN begun b ON b.job_id = c.job_id WHERE c.attempts <> coalesce(b.attempts, 0)
