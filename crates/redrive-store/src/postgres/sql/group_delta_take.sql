-- The same, to be added up: of one group, or the oldest of all.
WITH chosen AS MATERIALIZED (
    SELECT g.ctid AS place, age(g.xmin) AS age FROM redrive.group_delta g WHERE $1::text IS NULL OR g.fingerprint = $1
    ORDER BY age(g.xmin) DESC LIMIT $2
), gone AS (
    DELETE FROM redrive.group_delta g USING chosen c WHERE g.ctid = c.place
    RETURNING g.fingerprint, g.letters, g.failures, g.under_way, g.recovered, g.relapsed, g.seen_at, g.at, c.age
)
SELECT fingerprint, letters, failures, under_way, recovered, relapsed, seen_at, at FROM gone ORDER BY age DESC
