-- The words of the oldest letter of each of these groups, and what it was found to be.
SELECT f.fingerprint, d.job_id, d.error_message, d.cause, d.error_type
FROM unnest($1::text[]) AS f (fingerprint)
     CROSS JOIN LATERAL (SELECT l.job_id, l.error_message, l.cause, l.error_type FROM redrive.dead_letter l
                         WHERE l.fingerprint = f.fingerprint ORDER BY l.died_at, l.job_id LIMIT 1) d
