SELECT fence, lane_id, source_id, attempts, retries, event, begun_at IS NOT NULL FROM lease WHERE job_id = ?1
