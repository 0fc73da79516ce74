INSERT INTO redrive.dead_letter (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type,
                                 error_message, attempts, retries, crashes, max_retries, fence, context, report, redrives)
SELECT d.*, coalesce(p.redrives, 0)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
            $17::text[], $18::text[])
     AS d (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type, error_message, attempts,
           retries, crashes, max_retries, fence, context, report)
     LEFT JOIN redrive.progress p ON p.job_id = d.job_id
