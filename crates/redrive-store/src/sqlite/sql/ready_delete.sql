DELETE FROM ready WHERE lane_id = ?1 AND rank = ?2 AND run_at = ?3 AND job_id = ?4
