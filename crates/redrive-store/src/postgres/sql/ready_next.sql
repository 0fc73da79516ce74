-- When the first job of each of these lanes is due.
WITH RECURSIVE ranks AS (
    SELECT p.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = p.lane_id) AS rank
    FROM unnest($1::bigint[]) AS p (lane_id)
    UNION ALL
    SELECT k.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank > k.rank)
    FROM ranks k WHERE k.rank IS NOT NULL
)
SELECT min((SELECT min(r.run_at) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank = k.rank)),
       redrive.now_ms()
FROM ranks k WHERE k.rank IS NOT NULL
