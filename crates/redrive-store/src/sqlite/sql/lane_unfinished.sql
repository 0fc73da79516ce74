-- What waits in a paused queue is nobody's to finish.
SELECT q.name, l.kind FROM lane l JOIN queue q ON q.id = l.queue_id
WHERE l.leased > 0 OR (l.ready > 0 AND q.paused_at IS NULL)
