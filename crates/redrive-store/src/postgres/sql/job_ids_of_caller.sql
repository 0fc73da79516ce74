SELECT id, lane_id FROM redrive.job WHERE caller_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2
