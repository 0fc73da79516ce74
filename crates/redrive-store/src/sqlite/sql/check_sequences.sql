SELECT 'the next job is ' || s.next_job || ', but job_' || x.top || ' exists'
FROM store s, (SELECT max((SELECT coalesce(max(id), 0) FROM job), (SELECT coalesce(max(job_id), 0) FROM ended)) AS top) x
WHERE s.next_job <= x.top
UNION ALL
SELECT 'the next event is ' || s.next_event || ', but event ' || x.top || ' exists'
FROM store s, (SELECT coalesce(max(seq), 0) AS top FROM event) x WHERE s.next_event <= x.top
