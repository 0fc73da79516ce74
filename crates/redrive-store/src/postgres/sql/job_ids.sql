SELECT id, lane_id FROM redrive.job WHERE id < $1 ORDER BY id DESC LIMIT $2
