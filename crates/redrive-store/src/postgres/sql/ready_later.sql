-- When the oldest of each of these lanes became due and how many are not, a rank at a time.
WITH RECURSIVE ranks AS (
    SELECT p.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = p.lane_id) AS rank
    FROM unnest($1::bigint[]) AS p (lane_id)
    UNION ALL
    SELECT k.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank > k.rank)
    FROM ranks k WHERE k.rank IS NOT NULL
)
SELECT k.lane_id, min(f.run_at) FILTER (WHERE f.run_at <= coalesce($2, redrive.now_ms())), sum(w.later)::bigint
FROM ranks k
     CROSS JOIN LATERAL (SELECT min(r.run_at) AS run_at FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank = k.rank) f
     CROSS JOIN LATERAL (SELECT count(*) AS later
                         FROM (SELECT 1 FROM redrive.ready r
                               WHERE r.lane_id = k.lane_id AND r.rank = k.rank AND r.run_at > coalesce($2, redrive.now_ms())
                               LIMIT $3) x) w
WHERE k.rank IS NOT NULL GROUP BY k.lane_id
