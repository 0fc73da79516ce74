SELECT 'notice ' || space || '/' || name || ' has version ' || version || ', as another one has' FROM redrive.notice
WHERE version IN (SELECT version FROM redrive.notice GROUP BY version HAVING count(*) > 1)
UNION ALL
SELECT 'notice ' || space || '/' || name || ' has version ' || version || ' and was put up with ' || id
FROM redrive.notice WHERE version < id
UNION ALL
SELECT 'notice ' || n.space || '/' || n.name || ' is ahead of the next number ' || s.next
FROM redrive.notice n,
     (SELECT s.event_base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20) AS next FROM redrive.store s) s
WHERE n.version >= s.next
