-- Lane 0 is of no queue: what is counted about keys.
SELECT CASE WHEN ?4 THEN h.hour END, CASE WHEN ?5 THEN q.name END, h.what, sum(h.n)
FROM hour_count h LEFT JOIN lane l ON l.id = h.lane_id LEFT JOIN queue q ON q.id = l.queue_id
WHERE h.hour BETWEEN ?1 AND ?2 AND (?3 IS NULL OR q.name = ?3) GROUP BY 1, 2, 3 ORDER BY 1, 2 NULLS LAST, 3
