SELECT (s.events + coalesce(d.events, 0))::bigint, (s.failed_events + coalesce(d.failed_events, 0))::bigint
FROM redrive.store s, (SELECT sum(events) AS events, sum(failed_events) AS failed_events FROM redrive.delta) d
