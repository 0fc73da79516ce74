-- With what is not added up yet.
WITH said AS (
    SELECT x.fingerprint, sum(x.letters) AS letters, sum(x.under_way) AS under_way
    FROM (SELECT fingerprint, letters, under_way FROM redrive.letter_group
          UNION ALL SELECT fingerprint, letters, under_way FROM redrive.group_delta) x GROUP BY x.fingerprint
), dead AS (
    SELECT d.fingerprint, count(*) AS n FROM redrive.dead_letter d GROUP BY d.fingerprint
), going AS (
    SELECT p.fingerprint, count(*) AS n FROM redrive.progress p
    WHERE p.redriven_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM redrive.dead_letter d WHERE d.job_id = p.job_id)
    GROUP BY p.fingerprint
)
SELECT 'group ' || s.fingerprint || ' says ' || s.letters || ' letters, there are ' || coalesce(d.n, 0)
FROM said s LEFT JOIN dead d ON d.fingerprint = s.fingerprint WHERE s.letters <> coalesce(d.n, 0)
UNION ALL
SELECT 'a letter belongs to group ' || d.fingerprint || ', which does not exist' FROM dead d
WHERE NOT EXISTS (SELECT 1 FROM said s WHERE s.fingerprint = d.fingerprint)
UNION ALL
SELECT 'group ' || s.fingerprint || ' says ' || s.under_way || ' are under way, there are ' || coalesce(g.n, 0)
FROM said s LEFT JOIN going g ON g.fingerprint = s.fingerprint WHERE s.under_way <> coalesce(g.n, 0)
