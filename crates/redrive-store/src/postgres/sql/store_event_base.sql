UPDATE redrive.store s SET event_base = x.top + 1048576 - (pg_current_xact_id()::text::bigint << 20)
FROM (SELECT coalesce(max(e.seq), 0) AS top FROM redrive.event e) x
WHERE x.top >= s.event_base + (pg_current_xact_id()::text::bigint << 20)
