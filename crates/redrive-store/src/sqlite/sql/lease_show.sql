SELECT worker_id, expires_at, begun_at, cancel_why IS NOT NULL, attempts, event, fence FROM lease WHERE job_id = ?1
