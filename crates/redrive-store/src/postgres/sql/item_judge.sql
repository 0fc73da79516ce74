-- How the first attempt went, once.
UPDATE redrive.redrive_item i SET outcome = s.outcome, fingerprint = s.fingerprint
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS s (run_id, job_id, outcome, fingerprint)
WHERE i.run_id = s.run_id AND i.job_id = s.job_id AND i.outcome = 0
