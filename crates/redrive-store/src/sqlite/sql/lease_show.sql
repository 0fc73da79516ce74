SELECT worker_id, expires_at, begun_at, cancel_requested, attempts, event FROM lease WHERE job_id = ?1
