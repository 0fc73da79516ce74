-- Whether a reaper finds anything to do, by the conditions of what it does then. Asked every second, and nothing is written when
-- it does not.
WITH RECURSIVE at AS MATERIALIZED (
    SELECT coalesce($1, redrive.now_ms()) AS now,
           CASE WHEN $1::bigint IS NULL THEN
               (SELECT greatest(floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint, s.timeline_since) FROM redrive.store s)
           END AS up
), place AS (
    SELECT min(r.lane_id) AS lane_id FROM redrive.ready r WHERE r.lane_id < 0
    UNION ALL
    SELECT (SELECT min(r.lane_id) FROM redrive.ready r WHERE r.lane_id > p.lane_id AND r.lane_id < 0)
    FROM place p WHERE p.lane_id IS NOT NULL
)
SELECT EXISTS (SELECT 1 FROM redrive.lease l CROSS JOIN at a
               WHERE l.expires_at <= a.now OR l.expires_at > a.now + l.lease_for_ms
                  OR l.leased_at < a.up AND l.expires_at < a.up + l.lease_for_ms)
    OR EXISTS (SELECT 1 FROM redrive.worker w CROSS JOIN at a
               WHERE w.expires_at <= a.now OR w.expires_at > a.now + w.lasts_ms
                  OR w.seen_at < a.up AND w.expires_at > 0 AND w.expires_at < a.up + w.lasts_ms)
    OR EXISTS (SELECT 1 FROM place p WHERE p.lane_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM redrive.worker w WHERE w.id = -p.lane_id))
