-- The same for a transaction that reads one moment: it is undone if the keys have changed since, and they wait for it.
SELECT redrive.now_ms(), s.event_base + (pg_current_xact_id()::text::bigint << 20), k.key_epoch,
       EXISTS (SELECT 1 FROM redrive.moving m WHERE m.state = 'draining' AND m.until > redrive.now_ms()), s.store_id,
       ARRAY(SELECT q.id FROM redrive.queue q WHERE q.paused_at IS NOT NULL)
FROM redrive.store s, redrive.seal_epoch k FOR SHARE OF k
