-- Since its last redrive a living job has begun as often as it was counted, less what was given back.
WITH redriven AS (
    SELECT job_id, max(seq) AS seq FROM event
    WHERE attempt = 0 AND importance = 4 AND lane_id IS NOT NULL GROUP BY job_id
), begun AS (
    SELECT e.job_id, sum(t.text = 'attempt_started')
                     - sum(t.text IN ('job_snoozed', 'job_released', 'job_parked') AND coalesce(pt.text, '') = 'attempt_started') AS attempts
    FROM event e JOIN name t ON t.id = e.type_id LEFT JOIN event p ON p.seq = e.parent
         LEFT JOIN name pt ON pt.id = p.type_id LEFT JOIN redriven r ON r.job_id = e.job_id
    WHERE e.job_id IN (SELECT id FROM job) AND e.lane_id IS NOT NULL AND e.seq > coalesce(r.seq, 0) GROUP BY e.job_id
), counted AS (
    SELECT j.id AS job_id,
           coalesce((SELECT attempts FROM lease WHERE job_id = j.id), (SELECT attempts FROM dead_letter WHERE job_id = j.id),
                    (SELECT attempts FROM progress WHERE job_id = j.id), 0) AS attempts
    FROM job j
    -- What was tried elsewhere has no events here.
    WHERE NOT EXISTS (SELECT 1 FROM dead_letter d JOIN event e ON e.seq = d.event JOIN name t ON t.id = e.type_id
                      WHERE d.job_id = j.id AND t.text = 'letter_imported')
)
SELECT 'job_' || c.job_id || ' counts ' || c.attempts || ' attempts, its events ' || coalesce(b.attempts, 0)
FROM counted c LEFT JOIN begun b ON b.job_id = c.job_id WHERE c.attempts <> coalesce(b.attempts, 0)
