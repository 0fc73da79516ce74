-- The last event of those before which nothing can appear any more (whatever is still under way has higher numbers), and
-- the last one of all.
SELECT coalesce((SELECT e.seq FROM redrive.event e
                 WHERE e.seq < (SELECT s.event_base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20) FROM redrive.store s)
                 ORDER BY e.seq DESC LIMIT 1), 0),
       coalesce((SELECT max(e.seq) FROM redrive.event e), 0)
