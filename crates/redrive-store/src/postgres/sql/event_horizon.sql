-- The last event of those behind which nothing can appear any more: whatever is still under way gets higher numbers.
SELECT coalesce(max(e.seq), 0) FROM redrive.event e, redrive.store s
WHERE e.seq < s.event_base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20)
