INSERT INTO redrive.progress (job_id, run_at, fence, attempts, retries, crashes, event, redrives, fingerprint, run_id, redriven_at)
SELECT b.job_id, $2, b.fence, b.attempts, b.retries, b.crashes, b.event, b.redrives, b.fingerprint, $10, $2
FROM unnest($1::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[])
     AS b (job_id, fence, event, redrives, attempts, retries, crashes, fingerprint)
