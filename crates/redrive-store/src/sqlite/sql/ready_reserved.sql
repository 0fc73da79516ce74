-- What waits for one worker alone, by the lane that it belongs to: since when, and how much is not due.
SELECT j.lane_id, min(CASE WHEN r.run_at <= ?1 THEN r.run_at END), sum(r.run_at > ?1)
FROM (SELECT job_id, run_at FROM ready WHERE lane_id < 0 LIMIT ?2) r JOIN job j ON j.id = r.job_id GROUP BY j.lane_id
