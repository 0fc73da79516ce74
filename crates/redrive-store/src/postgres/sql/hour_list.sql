-- What was counted, with what is not added up yet. Lane 0 is of no queue: what is counted about keys.
SELECT CASE WHEN $4 THEN x.hour END, CASE WHEN $5 THEN q.name COLLATE "C" END, x.what, sum(x.n)::bigint
FROM (SELECT h.hour, h.lane_id, h.what, h.n FROM redrive.hour_count h WHERE h.hour BETWEEN $1 AND $2
      UNION ALL
      SELECT d.hours[i.at], d.lane_id, d.hours[i.at + 1], d.hours[i.at + 2]
      FROM redrive.delta d CROSS JOIN LATERAL generate_series(1, cardinality(d.hours), 3) AS i (at)
      WHERE d.hours IS NOT NULL AND d.hours[i.at] BETWEEN $1 AND $2) x
     LEFT JOIN redrive.lane l ON l.id = x.lane_id LEFT JOIN redrive.queue q ON q.id = l.queue_id
WHERE $3::text IS NULL OR q.name = $3
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
