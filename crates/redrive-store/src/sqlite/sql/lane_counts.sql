SELECT l.id, q.name, l.kind, l.ready, l.leased, l.dead, l.succeeded, l.cancelled, q.paused_at
FROM lane l JOIN queue q ON q.id = l.queue_id ORDER BY q.name, l.kind
