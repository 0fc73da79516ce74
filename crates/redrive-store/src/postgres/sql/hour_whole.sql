SELECT x.hour, x.lane_id, x.what, sum(x.n)::bigint
FROM (SELECT h.hour, h.lane_id, h.what, h.n FROM redrive.hour_count h
      UNION ALL
      SELECT d.hours[i.at], d.lane_id, d.hours[i.at + 1], d.hours[i.at + 2]
      FROM redrive.delta d CROSS JOIN LATERAL generate_series(1, cardinality(d.hours), 3) AS i (at)
      WHERE d.hours IS NOT NULL) x GROUP BY 1, 2, 3
