SELECT l.id, l.queue_id, q.name, l.kind FROM lane l JOIN queue q ON q.id = l.queue_id
