WITH moved AS (
    SELECT lane_id, sum(ready) AS ready, sum(leased) AS leased, sum(dead) AS dead FROM redrive.delta GROUP BY lane_id
), said AS (
    SELECT l.id, l.ready + coalesce(m.ready, 0) AS ready, l.leased + coalesce(m.leased, 0) AS leased, l.dead + coalesce(m.dead, 0) AS dead
    FROM redrive.lane l LEFT JOIN moved m ON m.lane_id = l.id
), found AS (
    SELECT l.id, coalesce(sum(x.ready), 0) AS ready, coalesce(sum(x.leased), 0) AS leased, coalesce(sum(x.dead), 0) AS dead
    FROM redrive.lane l LEFT JOIN (
        SELECT j.lane_id, 1 AS ready, 0 AS leased, 0 AS dead FROM redrive.ready r JOIN redrive.job j ON j.id = r.job_id
        UNION ALL SELECT lane_id, 0, 1, 0 FROM redrive.lease UNION ALL SELECT lane_id, 0, 0, 1 FROM redrive.dead_letter
    ) x ON x.lane_id = l.id GROUP BY l.id
), causes AS (
    SELECT x.cause, sum(x.said) AS said, sum(x.found) AS found
    FROM (SELECT cause, letters AS said, 0 AS found FROM redrive.dead_count
          UNION ALL SELECT cause, letters, 0 FROM redrive.delta WHERE cause IS NOT NULL
          UNION ALL SELECT cause, 0, 1 FROM redrive.dead_letter) x GROUP BY x.cause
), whole AS (
    SELECT s.events + coalesce(d.events, 0) AS events, s.failed_events + coalesce(d.failed_events, 0) AS failed_events
    FROM redrive.store s, (SELECT sum(events) AS events, sum(failed_events) AS failed_events FROM redrive.delta) d
), stream AS (
    SELECT count(*) AS events, count(*) FILTER (WHERE status = 3) AS failed_events FROM redrive.event
)
SELECT 'lane ' || s.id || ' says ready ' || s.ready || ', leased ' || s.leased || ', dead ' || s.dead
FROM said s JOIN found f ON f.id = s.id WHERE (s.ready, s.leased, s.dead) <> (f.ready, f.leased, f.dead)
UNION ALL
SELECT 'cause ' || c.cause || ' says ' || c.said || ' letters' FROM causes c WHERE c.said <> c.found
UNION ALL
SELECT 'there are ' || f.events || ' events, the store says ' || w.events FROM whole w, stream f WHERE w.events <> f.events
UNION ALL
SELECT 'there are ' || f.failed_events || ' failed events, the store says ' || w.failed_events FROM whole w, stream f
WHERE w.failed_events <> f.failed_events
