SELECT s.store_id, m.state, m.place,
       NOT EXISTS (SELECT 1 FROM redrive.event) AND NOT EXISTS (SELECT 1 FROM redrive.job) AND NOT EXISTS (SELECT 1 FROM redrive.ended)
       AND NOT EXISTS (SELECT 1 FROM redrive.aside) AND NOT EXISTS (SELECT 1 FROM redrive.seal_key)
       AND NOT EXISTS (SELECT 1 FROM redrive.task)
       AND NOT EXISTS (SELECT 1 FROM redrive.idempotency_keys) AND NOT EXISTS (SELECT 1 FROM redrive.outbox)
       AND NOT EXISTS (SELECT 1 FROM redrive.saved_key) AND NOT EXISTS (SELECT 1 FROM redrive.notice)
FROM redrive.store s LEFT JOIN redrive.moving m ON true
