-- Letters of these groups, from the counters.
SELECT coalesce(sum(x.letters), 0)::bigint
FROM (SELECT fingerprint, letters FROM redrive.letter_group UNION ALL SELECT fingerprint, letters FROM redrive.group_delta) x
WHERE x.fingerprint = ANY ($1)
