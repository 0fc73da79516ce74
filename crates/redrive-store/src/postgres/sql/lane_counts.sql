SELECT l.id, q.name, l.kind, (l.ready + coalesce(d.ready, 0))::bigint, (l.leased + coalesce(d.leased, 0))::bigint,
       (l.dead + coalesce(d.dead, 0))::bigint, (l.succeeded + coalesce(d.succeeded, 0))::bigint,
       (l.cancelled + coalesce(d.cancelled, 0))::bigint, q.paused_at
FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id
     LEFT JOIN (SELECT lane_id, sum(ready) AS ready, sum(leased) AS leased, sum(dead) AS dead, sum(succeeded) AS succeeded,
                       sum(cancelled) AS cancelled
                FROM redrive.delta WHERE lane_id IS NOT NULL GROUP BY lane_id) d ON d.lane_id = l.id
ORDER BY q.name COLLATE "C", l.kind COLLATE "C"
