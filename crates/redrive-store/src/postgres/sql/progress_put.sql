INSERT INTO redrive.progress AS p (job_id, run_at, held_for, fence, attempts, retries, crashes, last_delay_ms, hint, event)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::text[], $10::bigint[])
ON CONFLICT (job_id) DO UPDATE SET run_at = excluded.run_at, held_for = excluded.held_for, fence = excluded.fence,
    attempts = excluded.attempts, retries = excluded.retries, crashes = excluded.crashes,
    -- Without a delay nothing was decided: what the last decision said still holds.
    hint = CASE WHEN excluded.last_delay_ms IS NULL THEN p.hint ELSE excluded.hint END,
    last_delay_ms = coalesce(excluded.last_delay_ms, p.last_delay_ms), event = excluded.event
