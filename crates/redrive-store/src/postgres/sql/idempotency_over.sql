-- Whether there is something to sweep.
SELECT EXISTS (SELECT 1 FROM redrive.idempotency_keys k WHERE k.state = 0 AND k.leased_until <= coalesce($1::bigint, redrive.now_ms()))
    OR EXISTS (SELECT 1 FROM redrive.idempotency_keys k WHERE k.expires_at <= coalesce($1::bigint, redrive.now_ms()) AND k.state <> 0)
