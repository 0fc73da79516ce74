-- When the first job of these lanes is due, and the first of those that are not due yet: by this clock, or the database's.
WITH RECURSIVE at AS MATERIALIZED (
    SELECT coalesce($2, redrive.now_ms()) AS now
), paused AS MATERIALIZED (
    SELECT l.id FROM redrive.queue q JOIN redrive.lane l ON l.queue_id = q.id WHERE q.paused_at IS NOT NULL
), ranks AS (
    SELECT p.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = p.lane_id) AS rank
    FROM unnest($1::bigint[]) AS p (lane_id) WHERE p.lane_id NOT IN (SELECT x.id FROM paused x)
    UNION ALL
    SELECT k.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank > k.rank)
    FROM ranks k WHERE k.rank IS NOT NULL
)
SELECT min((SELECT min(r.run_at) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank = k.rank)),
       min((SELECT min(r.run_at) FROM redrive.ready r
            WHERE r.lane_id = k.lane_id AND r.rank = k.rank AND r.run_at > (SELECT a.now FROM at a))),
       (SELECT a.now FROM at a)
FROM ranks k WHERE k.rank IS NOT NULL
