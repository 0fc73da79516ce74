SELECT d.job_id, d.lane_id, d.died_at, d.reason, d.cause, d.retryable, d.rule, d.fingerprint, d.error_type, d.error_message,
       d.attempts, d.retries, d.redrives, d.caller_id
FROM redrive.dead_letter d
