-- A page of the tasks that go on: whether somebody else has each, and whether it only waits for jobs that it has begun. Its cost is
-- that of the page, however many are open.
SELECT t.id, t.version,
       t.held_by IS NOT NULL AND t.held_by <> ?2 AND t.held_until > ?1 AND t.held_until <= ?1 + 3600000,
       EXISTS (SELECT 1 FROM subtask s INDEXED BY subtask_started WHERE s.task_id = t.id AND s.state = 1)
       AND NOT EXISTS (
           SELECT 1 FROM subtask s INDEXED BY subtask_started LEFT JOIN job j ON j.id = s.job_id LEFT JOIN dead_letter d ON d.job_id = s.job_id
           WHERE s.task_id = t.id AND s.state = 1 AND (j.id IS NULL OR d.job_id IS NOT NULL)
       )
FROM task t INDEXED BY task_open WHERE t.state = 0 AND t.id > ?3 ORDER BY t.id LIMIT ?4
