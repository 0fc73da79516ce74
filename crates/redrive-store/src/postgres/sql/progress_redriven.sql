INSERT INTO redrive.progress (job_id, run_at, fence, attempts, retries, crashes, event, redrives)
SELECT b.job_id, $2, b.fence, b.attempts, b.retries, b.crashes, b.event, b.redrives
FROM unnest($1::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
     AS b (job_id, fence, event, redrives, attempts, retries, crashes)
