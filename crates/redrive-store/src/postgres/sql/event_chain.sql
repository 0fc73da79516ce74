-- An event and everything that led to it, only as far as it is about a job, if asked. One that led to itself ends with the limit.
WITH RECURSIVE chain (seq, parent, depth) AS (
    SELECT e.seq, e.parent, 1::bigint FROM redrive.event e WHERE e.seq = $1 AND $2 > 0
    UNION ALL
    SELECT e.seq, e.parent, c.depth + 1 FROM chain c JOIN redrive.event e ON e.seq = c.parent
    WHERE c.depth < $2 AND ($3::bigint IS NULL OR e.job_id = $3)
)
