SELECT x.cause, sum(x.letters)::bigint
FROM (SELECT cause, letters FROM redrive.dead_count UNION ALL SELECT cause, letters FROM redrive.delta WHERE cause IS NOT NULL) x
GROUP BY x.cause HAVING sum(x.letters) > 0
