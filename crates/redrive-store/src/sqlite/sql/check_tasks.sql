WITH found AS (
    SELECT task_id, sum(state = 1) AS started, sum(state = 2) AS succeeded, sum(state = 3) AS failed, sum(state = 4) AS skipped,
           sum(state = 5) AS cancelled
    FROM subtask GROUP BY task_id
), said AS (
    SELECT t.id, t.subtasks, t.waiting, t.started, t.succeeded, t.failed, t.skipped, t.cancelled, coalesce(f.started, 0) AS a,
           coalesce(f.succeeded, 0) AS b, coalesce(f.failed, 0) AS c, coalesce(f.skipped, 0) AS d, coalesce(f.cancelled, 0) AS e
    FROM task t LEFT JOIN found f ON f.task_id = t.id
)
SELECT 'task-' || id || ' says waiting ' || waiting || ', started ' || started || ', succeeded ' || succeeded || ', failed ' || failed
       || ', skipped ' || skipped || ', cancelled ' || cancelled || '; its subtasks say otherwise'
FROM said WHERE (started, succeeded, failed, skipped, cancelled, waiting) <> (a, b, c, d, e, subtasks - a - b - c - d - e)
UNION ALL
SELECT 'subtask ' || s.number || ' of task-' || s.task_id || ' is started and has no job' FROM subtask s
WHERE s.state = 1 AND s.job_id IS NULL
UNION ALL
SELECT 'there is a subtask ' || s.number || ' of task-' || s.task_id || ', which has none' FROM subtask s
WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = s.task_id AND s.number < t.subtasks)
UNION ALL
SELECT 'task-' || t.id || ' has no plan' FROM task t WHERE NOT EXISTS (SELECT 1 FROM task_plan p WHERE p.task_id = t.id)
UNION ALL
SELECT 'there is a plan of task-' || p.task_id || ', which does not exist' FROM task_plan p
WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = p.task_id)
UNION ALL
SELECT 'task-' || t.id || ' is in state ' || t.state || ' and ' || CASE WHEN t.ended_at IS NULL THEN 'not over' ELSE 'over' END
FROM task t WHERE (t.state = 0) <> (t.ended_at IS NULL)
UNION ALL
-- Of one that is over the events may have gone with their age.
SELECT 'task-' || t.id || ' names event ' || t.event || ', which is none of its own' FROM task t
WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = t.event AND e.caller_id = 'task-' || t.id)
  AND (t.state = 0 OR EXISTS (SELECT 1 FROM event e WHERE e.seq = t.event))
