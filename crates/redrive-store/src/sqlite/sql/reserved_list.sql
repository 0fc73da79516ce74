SELECT rank, run_at, job_id FROM ready WHERE lane_id = -?1 LIMIT ?2
