INSERT INTO lease (job_id, lane_id, fence, worker_id, leased_at, expires_at, lease_for_ms, begun_at, attempts, retries, crashes,
                   source_id, flags, event)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
