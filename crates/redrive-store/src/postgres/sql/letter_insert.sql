INSERT INTO redrive.dead_letter (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type,
                                 error_message, attempts, retries, crashes, max_retries, fence, caller_id, redrives, run_id)
SELECT d.job_id, d.lane_id, d.died_at, d.event, d.reason, d.cause, d.retryable, d.rule, d.fingerprint, d.error_type,
       d.error_message, d.attempts, d.retries, d.crashes, d.max_retries, d.fence, d.caller_id,
       coalesce(d.redrives, p.redrives, 0), p.run_id
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
            $17::text[], $18::bigint[])
     AS d (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type, error_message, attempts,
           retries, crashes, max_retries, fence, caller_id, redrives)
     LEFT JOIN redrive.progress p ON p.job_id = d.job_id
