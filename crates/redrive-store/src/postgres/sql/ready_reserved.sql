-- What waits for one worker alone, by the lane that it belongs to: since when, and how much is not due.
SELECT j.lane_id, min(r.run_at) FILTER (WHERE r.run_at <= coalesce($1, redrive.now_ms())),
       count(*) FILTER (WHERE r.run_at > coalesce($1, redrive.now_ms()))
FROM (SELECT job_id, run_at FROM redrive.ready WHERE lane_id < 0 LIMIT $2) r JOIN redrive.job j ON j.id = r.job_id
GROUP BY j.lane_id
