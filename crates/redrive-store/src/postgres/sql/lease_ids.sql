SELECT job_id, lane_id FROM redrive.lease WHERE job_id < $1 ORDER BY job_id DESC LIMIT $2
