-- From each lane to the next one, since many items may wait in a few lanes.
WITH RECURSIVE pending (lane) AS (
    SELECT min(lane) FROM redrive.outbox WHERE state = 0
    UNION ALL
    SELECT (SELECT min(o.lane) FROM redrive.outbox o WHERE o.state = 0 AND o.lane > p.lane) FROM pending p WHERE p.lane IS NOT NULL
)
SELECT lane FROM pending WHERE lane IS NOT NULL
