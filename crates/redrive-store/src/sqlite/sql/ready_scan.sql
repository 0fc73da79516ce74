-- From here on in the order of the lane; the caller stops at what is not due and goes on with the next rank.
SELECT rank, run_at, job_id FROM ready WHERE lane_id = ?1 AND rank > ?2 ORDER BY rank, run_at, job_id LIMIT ?3
