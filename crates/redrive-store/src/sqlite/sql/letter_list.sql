-- These letters, in no particular order.
SELECT d.job_id, q.name, l.kind, d.died_at, d.event, d.reason, d.cause, d.retryable, d.rule, d.fingerprint, d.error_type,
       d.error_message, d.attempts, d.retries, d.crashes, d.max_retries, d.redrives, r.context, r.report, j.enqueued_at,
       d.caller_id, j.policy, j.payload
FROM json_each(?1) x CROSS JOIN dead_letter d ON d.job_id = x.value JOIN letter_report r ON r.job_id = d.job_id
     JOIN job j ON j.id = d.job_id JOIN lane l ON l.id = d.lane_id JOIN queue q ON q.id = l.queue_id
