-- Letters of these causes, or all, from the counters.
SELECT coalesce(sum(x.letters), 0)::bigint
FROM (SELECT cause, letters FROM redrive.dead_count UNION ALL SELECT cause, letters FROM redrive.delta WHERE cause IS NOT NULL) x
WHERE $1::text[] IS NULL OR x.cause = ANY ($1::text[])
