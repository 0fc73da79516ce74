INSERT INTO hour_count (hour, lane_id, what, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (hour, lane_id, what) DO UPDATE SET n = n + ?4
