SELECT 'the next job is behind ' || n.last_value || ', but job_' || x.top || ' exists'
FROM redrive.job_number n,
     (SELECT greatest((SELECT max(id) FROM redrive.job), (SELECT max(job_id) FROM redrive.ended), 0) AS top) x
WHERE x.top > 0 AND (n.last_value < x.top OR NOT n.is_called AND n.last_value <= x.top)
UNION ALL
SELECT 'the next event is ' || y.next || ', but event ' || x.top || ' exists'
FROM (SELECT s.event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20) AS next FROM redrive.store s) y,
     (SELECT coalesce(max(seq), 0) AS top FROM redrive.event) x
WHERE y.next <= x.top
