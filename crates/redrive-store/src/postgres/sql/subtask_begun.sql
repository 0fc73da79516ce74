-- What is begun and not over, with where its job stands; how one that is over ended is said by its last event.
SELECT s.number, s.job_id, coalesce(p.run_at, j.run_at), coalesce(p.attempts, 0), l.attempts, l.begun_at IS NOT NULL,
       d.job_id IS NOT NULL, e.status
FROM redrive.subtask s LEFT JOIN redrive.job j ON j.id = s.job_id LEFT JOIN redrive.progress p ON p.job_id = j.id
     LEFT JOIN redrive.lease l ON l.job_id = j.id LEFT JOIN redrive.dead_letter d ON d.job_id = j.id
     LEFT JOIN redrive.ended x ON x.job_id = s.job_id LEFT JOIN redrive.event e ON e.seq = x.event
WHERE s.task_id = $1 AND s.state = 1 ORDER BY s.number
