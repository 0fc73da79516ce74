SELECT q.name, l.kind FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id
     LEFT JOIN (SELECT lane_id, sum(ready + leased) AS moved FROM redrive.delta GROUP BY lane_id) d ON d.lane_id = l.id
WHERE l.ready + l.leased + coalesce(d.moved, 0) > 0
