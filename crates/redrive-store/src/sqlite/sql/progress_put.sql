INSERT INTO progress (job_id, run_at, held_for, fence, attempts, retries, crashes, last_delay_ms, hint, event)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (job_id) DO UPDATE SET run_at = ?2, held_for = ?3, fence = ?4, attempts = ?5, retries = ?6, crashes = ?7,
    -- Without a delay nothing was decided: what the last decision said still holds.
    hint = CASE WHEN ?8 IS NULL THEN hint ELSE ?9 END, last_delay_ms = coalesce(?8, last_delay_ms), event = ?10
