SELECT NOT EXISTS (SELECT 1 FROM redrive.event) AND NOT EXISTS (SELECT 1 FROM redrive.job) AND NOT EXISTS (SELECT 1 FROM redrive.aside)
       AND NOT EXISTS (SELECT 1 FROM redrive.idempotency_keys) AND NOT EXISTS (SELECT 1 FROM redrive.outbox)
       AND NOT EXISTS (SELECT 1 FROM redrive.notice)
