SELECT l.id, l.queue_id FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id WHERE q.name = $1 AND l.kind = $2
