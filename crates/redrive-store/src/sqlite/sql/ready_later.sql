SELECT count(*) FROM (SELECT 1 FROM ready WHERE lane_id = ?1 AND rank = ?2 AND run_at > ?3 LIMIT ?4)
