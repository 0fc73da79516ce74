-- The next event's number is one that nobody has been given, in whichever transaction.
SELECT s.store_id, j.last_value + CASE WHEN j.is_called THEN 1 ELSE 0 END,
       s.event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20),
       w.last_value + CASE WHEN w.is_called THEN 1 ELSE 0 END,
       (s.events + coalesce(d.events, 0))::bigint, (s.failed_events + coalesce(d.failed_events, 0))::bigint, s.pruned_to, k.key_epoch
FROM redrive.store s, redrive.job_number j, redrive.worker_number w, redrive.seal_epoch k,
     (SELECT sum(events) AS events, sum(failed_events) AS failed_events FROM redrive.delta) d
