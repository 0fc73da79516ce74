-- What waits in a paused queue is nobody's to finish.
SELECT q.name, l.kind FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id
     LEFT JOIN (SELECT lane_id, sum(ready) AS ready, sum(leased) AS leased FROM redrive.delta GROUP BY lane_id) d ON d.lane_id = l.id
WHERE l.leased + coalesce(d.leased, 0) > 0 OR (l.ready + coalesce(d.ready, 0) > 0 AND q.paused_at IS NULL)
