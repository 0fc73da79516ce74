-- As `ready_take`, while some queue is paused: its work is left where it is.
WITH RECURSIVE paused AS MATERIALIZED (
    SELECT l.id FROM redrive.queue q JOIN redrive.lane l ON l.queue_id = q.id WHERE q.paused_at IS NOT NULL
), ranks AS (
    SELECT p.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = p.lane_id) AS rank
    FROM unnest($1::bigint[]) AS p (lane_id) WHERE p.lane_id NOT IN (SELECT x.id FROM paused x)
    UNION ALL
    SELECT k.lane_id, (SELECT min(r.rank) FROM redrive.ready r WHERE r.lane_id = k.lane_id AND r.rank > k.rank)
    FROM ranks k WHERE k.rank IS NOT NULL
), found AS (
    SELECT d.place, d.rank, d.run_at, d.job_id
    FROM ranks k CROSS JOIN LATERAL (
        SELECT r.ctid AS place, r.rank, r.run_at, r.job_id FROM redrive.ready r
        WHERE r.lane_id = k.lane_id AND r.rank = k.rank AND r.run_at <= coalesce($3, redrive.now_ms())
          -- What is reserved for a worker belongs to a queue all the same.
          AND (r.lane_id > 0 OR NOT EXISTS (SELECT 1 FROM redrive.job o
                                            WHERE o.id = r.job_id AND o.lane_id IN (SELECT x.id FROM paused x)))
        ORDER BY r.run_at, r.job_id LIMIT $2 FOR UPDATE OF r SKIP LOCKED
    ) d
    WHERE k.rank IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM redrive.moving m WHERE m.state = 'draining' AND m.until > redrive.now_ms())
    ORDER BY d.rank, d.run_at, d.job_id LIMIT $2
), due AS MATERIALIZED (
    -- Until it is too much at once; its length is known without the payload.
    SELECT f.place FROM (
        SELECT d.place, sum(octet_length(j.payload)) OVER (ORDER BY d.rank, d.run_at, d.job_id) - octet_length(j.payload) AS before
        FROM found d JOIN redrive.job j ON j.id = d.job_id
    ) f
    WHERE f.before < $4
), taken AS (
    -- By the place where each row lies, which does not change while it is locked.
    DELETE FROM redrive.ready r WHERE r.ctid = ANY (ARRAY(SELECT d.place FROM due d))
    RETURNING r.lane_id, r.rank, r.run_at, r.job_id
)
SELECT j.payload, j.enqueued_at, j.rank, j.source_id, j.event, j.policy, j.overrides, j.caller_id, j.idempotency_key,
       j.unique_key, j.timeout_ms, j.deadline_at, j.origin,
       -- Redriven, it is carried out by a handler of its name, which any process may have.
       j.inline AND coalesce(p.redrives, 0) = 0, j.lane_id,
       p.fence, p.attempts, p.retries, p.crashes, p.last_delay_ms, p.hint, p.event, j.id,
       p.fingerprint, p.run_id, p.redriven_at, j.target, t.lane_id, t.run_at, octet_length(j.payload)::bigint
FROM taken t JOIN redrive.job j ON j.id = t.job_id LEFT JOIN redrive.progress p ON p.job_id = t.job_id
ORDER BY t.rank, t.run_at, t.job_id
