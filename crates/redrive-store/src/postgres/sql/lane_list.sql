SELECT l.id, l.queue_id, q.name, l.kind FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id
