-- Letters of these lanes, from the counters.
SELECT coalesce(sum(x.dead), 0)::bigint
FROM (SELECT id, dead FROM redrive.lane UNION ALL SELECT lane_id, dead FROM redrive.delta WHERE dead <> 0) x WHERE x.id = ANY ($1)
