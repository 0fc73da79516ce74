INSERT INTO dead_letter (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type,
                         error_message, attempts, retries, crashes, max_retries, fence, redrives, caller_id, run_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
        coalesce(?17, (SELECT redrives FROM progress WHERE job_id = ?1), 0), ?18,
        (SELECT run_id FROM progress WHERE job_id = ?1))
