SELECT 'group ' || fingerprint || ' says ' || letters || ' letters, there are ' || found FROM (
    SELECT g.fingerprint, g.letters, coalesce(d.n, 0) AS found
    FROM letter_group g LEFT JOIN (SELECT fingerprint, count(*) AS n FROM dead_letter GROUP BY fingerprint) d
         ON d.fingerprint = g.fingerprint)
WHERE letters <> found
UNION ALL
SELECT 'the letter of job_' || d.job_id || ' belongs to group ' || d.fingerprint || ', which does not exist' FROM dead_letter d
WHERE NOT EXISTS (SELECT 1 FROM letter_group g WHERE g.fingerprint = d.fingerprint)
UNION ALL
SELECT 'group ' || fingerprint || ' says ' || under_way || ' are under way, there are ' || found FROM (
    SELECT g.fingerprint, g.under_way, coalesce(p.n, 0) AS found
    FROM letter_group g LEFT JOIN (
        SELECT p.fingerprint, count(*) AS n FROM progress p
        WHERE p.redriven_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.job_id = p.job_id)
        GROUP BY p.fingerprint) p ON p.fingerprint = g.fingerprint)
WHERE under_way <> found
