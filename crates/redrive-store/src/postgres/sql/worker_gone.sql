-- Workers whose presence is over, and those for whom something waits though nobody knows them any more: it was reserved in
-- the moment in which they were forgotten.
WITH RECURSIVE place AS (
    SELECT min(r.lane_id) AS lane_id FROM redrive.ready r WHERE r.lane_id < 0
    UNION ALL
    SELECT (SELECT min(r.lane_id) FROM redrive.ready r WHERE r.lane_id > p.lane_id AND r.lane_id < 0)
    FROM place p WHERE p.lane_id IS NOT NULL
)
SELECT w.id FROM redrive.worker w WHERE w.expires_at <= $1
UNION
SELECT -p.lane_id FROM place p WHERE p.lane_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM redrive.worker w WHERE w.id = -p.lane_id)
