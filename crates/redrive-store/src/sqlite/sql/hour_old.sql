DELETE FROM hour_count
WHERE (hour, lane_id, what) IN (SELECT hour, lane_id, what FROM hour_count WHERE hour < ?1 ORDER BY hour LIMIT ?2)
