SELECT id, lane_id FROM job WHERE id < ?1 ORDER BY id DESC LIMIT ?2
