-- The time, the number of the first event, and the epoch of the keys.
SELECT redrive.now_ms(), s.event_base + (pg_current_xact_id()::text::bigint << 20), k.key_epoch
FROM redrive.store s, redrive.seal_epoch k
