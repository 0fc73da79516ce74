-- Conditions and order follow.
SELECT t.id, t.created_at, t.name, t.place, p.plan, t.subtasks, t.waiting, t.started, t.succeeded, t.failed, t.skipped, t.cancelled,
       t.progress, t.state, t.why, t.report, t.version, t.held_until, t.ended_at, t.event
FROM redrive.task t JOIN redrive.task_plan p ON p.task_id = t.id
