-- What is begun and not over, with where its job stands; how one that is over ended is said by its last event. The index is
-- named: by the primary key every subtask of the task would be looked at.
SELECT s.number, s.job_id, coalesce(p.run_at, j.run_at), coalesce(p.attempts, 0), l.attempts, l.begun_at IS NOT NULL,
       d.job_id IS NOT NULL, e.status
FROM subtask s INDEXED BY subtask_started LEFT JOIN job j ON j.id = s.job_id LEFT JOIN progress p ON p.job_id = j.id
     LEFT JOIN lease l ON l.job_id = j.id LEFT JOIN dead_letter d ON d.job_id = j.id LEFT JOIN ended x ON x.job_id = s.job_id
     LEFT JOIN event e ON e.seq = x.event
WHERE s.task_id = ?1 AND s.state = 1 ORDER BY s.number
