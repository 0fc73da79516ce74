-- By its fence, not by its id: a worker that lost its lease must not win.
SELECT lane_id, source_id, attempts, retries, crashes, flags, event, begun_at IS NOT NULL, cancel_why
FROM lease WHERE job_id = ?1 AND fence = ?2
