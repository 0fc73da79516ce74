SELECT q.name, l.kind FROM lane l JOIN queue q ON q.id = l.queue_id WHERE l.ready + l.leased > 0
