WITH gone AS (
    DELETE FROM redrive.delta WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM redrive.delta d LIMIT $1)) RETURNING *
), lanes AS (
    UPDATE redrive.lane l
    SET ready = l.ready + g.ready, leased = l.leased + g.leased, dead = l.dead + g.dead, succeeded = l.succeeded + g.succeeded,
        cancelled = l.cancelled + g.cancelled, discarded = l.discarded + g.discarded
    FROM (SELECT lane_id, sum(ready)::bigint AS ready, sum(leased)::bigint AS leased, sum(dead)::bigint AS dead,
                 sum(succeeded)::bigint AS succeeded, sum(cancelled)::bigint AS cancelled, sum(discarded)::bigint AS discarded
          FROM gone WHERE lane_id IS NOT NULL GROUP BY lane_id) g
    WHERE l.id = g.lane_id
), letters AS (
    INSERT INTO redrive.dead_count AS c (cause, letters)
    SELECT cause, sum(letters)::bigint FROM gone WHERE cause IS NOT NULL GROUP BY cause
    ON CONFLICT (cause) DO UPDATE SET letters = c.letters + excluded.letters
), whole AS (
    UPDATE redrive.store s SET events = s.events + g.events, failed_events = s.failed_events + g.failed_events
    FROM (SELECT sum(events)::bigint AS events, sum(failed_events)::bigint AS failed_events FROM gone) g
    WHERE g.events <> 0 OR g.failed_events <> 0
), hours AS (
    INSERT INTO redrive.hour_count AS h (hour, lane_id, what, n)
    SELECT g.hours[i.at], g.lane_id, g.hours[i.at + 1], sum(g.hours[i.at + 2])::bigint
    FROM gone g CROSS JOIN LATERAL generate_series(1, cardinality(g.hours), 3) AS i (at)
    WHERE g.hours IS NOT NULL GROUP BY 1, 2, 3
    ON CONFLICT (hour, lane_id, what) DO UPDATE SET n = h.n + excluded.n
)
SELECT count(*) FROM gone
