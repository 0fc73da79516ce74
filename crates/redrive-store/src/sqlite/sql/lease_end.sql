-- Its fence is compared by the protocol: a worker that lost its lease must not win.
SELECT lane_id, source_id, attempts, retries, crashes, flags, event, begun_at IS NOT NULL, cancel_why, fence
FROM lease WHERE job_id = ?1
