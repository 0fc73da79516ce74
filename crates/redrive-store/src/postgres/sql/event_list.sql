SELECT e.seq, e.at, t.text, s.text, e.status, e.job_id, q.name, l.kind, e.parent, e.attempt, e.retries, e.max_retries,
       e.latency_ms, e.exit_code, e.importance, e.hypothesis, e.caller_id, e.detail, p.at, e.tags
FROM redrive.event e JOIN redrive.name t ON t.id = e.type_id JOIN redrive.name s ON s.id = e.source_id
     LEFT JOIN redrive.lane l ON l.id = e.lane_id LEFT JOIN redrive.queue q ON q.id = l.queue_id
     LEFT JOIN redrive.event p ON p.seq = e.parent
