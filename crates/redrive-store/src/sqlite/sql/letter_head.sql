-- Everything that is short; conditions and order follow.
SELECT d.job_id, d.died_at, d.lane_id, d.reason, d.cause, d.retryable, d.rule, d.fingerprint, d.error_type, d.error_message,
       d.attempts, d.retries, d.redrives, d.caller_id
