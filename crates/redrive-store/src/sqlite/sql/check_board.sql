SELECT 'notice ' || space || '/' || name || ' has version ' || version || ', as another one has' FROM notice
WHERE version IN (SELECT version FROM notice GROUP BY version HAVING count(*) > 1)
UNION ALL
SELECT 'notice ' || space || '/' || name || ' has version ' || version || ' and was put up with ' || id FROM notice WHERE version < id
UNION ALL
SELECT 'notice ' || n.space || '/' || n.name || ' is ahead of the next number ' || s.next_event
FROM notice n, store s WHERE n.version >= s.next_event
