INSERT INTO progress (job_id, run_at, held_for, fence, attempts, retries, crashes, last_delay_ms, hint, event, redrives,
                      fingerprint, run_id, redriven_at)
VALUES (?1, ?2, NULL, ?3, ?6, ?7, ?8, NULL, NULL, ?4, ?5, ?9, ?10, ?2)
