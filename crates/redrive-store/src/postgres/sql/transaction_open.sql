-- The time, the number of the first event, and the transaction's own number.
SELECT redrive.now_ms(), s.event_base + (pg_current_xact_id()::text::bigint << 20), pg_current_xact_id()::text::bigint
FROM redrive.store s
