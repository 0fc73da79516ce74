SELECT 'lane ' || l.id || ' says ready ' || l.ready || ', leased ' || l.leased || ', dead ' || l.dead
FROM lane l
WHERE l.ready <> (SELECT count(*) FROM ready r JOIN job j ON j.id = r.job_id WHERE j.lane_id = l.id)
   OR l.leased <> (SELECT count(*) FROM lease x WHERE x.lane_id = l.id)
   OR l.dead <> (SELECT count(*) FROM dead_letter d WHERE d.lane_id = l.id)
UNION ALL
SELECT 'cause ' || c.cause || ' says ' || c.letters || ' letters' FROM dead_count c
WHERE c.letters <> (SELECT count(*) FROM dead_letter d WHERE d.cause = c.cause)
UNION ALL
SELECT 'there are ' || (SELECT count(*) FROM event) || ' events, the store says ' || s.events FROM store s
WHERE s.events <> (SELECT count(*) FROM event)
UNION ALL
SELECT 'there are ' || (SELECT count(*) FROM event WHERE status = 3) || ' failed events, the store says ' || s.failed_events
FROM store s WHERE s.failed_events <> (SELECT count(*) FROM event WHERE status = 3)
