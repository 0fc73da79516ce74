-- Everything of `small` ten times over, each time with other numbers and a tenth of the month later. Texts are the same each time, the numbers of jobs in reports and details among them.
CREATE TEMP TABLE turn AS
WITH RECURSIVE turn (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM turn WHERE k < 9)
SELECT t.k, '.' || t.k AS again, t.k * s.next_job AS jobs, t.k * s.next_event AS events,
       -- A time becomes time / 10 + later.
       e.first - e.first / 10 + t.k * (e.last - e.first) / 10 AS later
FROM turn t, small.store s, (SELECT min(at) AS first, max(at) AS last FROM small.event) e ORDER BY t.k;

INSERT INTO name SELECT * FROM small.name;
INSERT INTO queue SELECT * FROM small.queue;
INSERT INTO lane SELECT id, queue_id, kind, 10 * ready, 10 * leased, 10 * dead, 10 * succeeded, 10 * cancelled, 10 * discarded
FROM small.lane;
INSERT INTO dead_count SELECT cause, transient, 10 * letters FROM small.dead_count;
UPDATE store SET (next_job, next_event, events, failed_events) =
    (SELECT 10 * next_job, 10 * next_event, 10 * events, 10 * failed_events FROM small.store);

INSERT INTO job
SELECT id + t.jobs, lane_id, payload, enqueued_at / 10 + t.later, run_at / 10 + t.later, rank, source_id, event + t.events, policy,
       overrides, iif(caller_id LIKE 'tenant-%', caller_id, caller_id || t.again), idempotency_key,
       unique_key, timeout_ms, deadline_at, origin, inline
FROM turn t CROSS JOIN small.job;
INSERT INTO ready SELECT lane_id, rank, run_at / 10 + t.later, job_id + t.jobs FROM turn t CROSS JOIN small.ready;
INSERT INTO progress (job_id, run_at, held_for, fence, attempts, retries, crashes, last_delay_ms, hint, redrives, event)
SELECT job_id + t.jobs, run_at / 10 + t.later, held_for, fence, attempts, retries, crashes, last_delay_ms, hint, redrives,
       event + t.events
FROM turn t CROSS JOIN small.progress;
INSERT INTO dead_letter
    (job_id, lane_id, died_at, event, reason, cause, retryable, rule, fingerprint, error_type, error_message, attempts, retries,
     crashes, max_retries, fence, redrives, caller_id)
SELECT job_id + t.jobs, lane_id, died_at / 10 + t.later, event + t.events, reason, cause, retryable, rule, fingerprint, error_type,
       error_message, attempts, retries, crashes, max_retries, fence, redrives,
       iif(caller_id LIKE 'tenant-%', caller_id, caller_id || t.again)
FROM turn t CROSS JOIN small.dead_letter;
INSERT INTO letter_report SELECT job_id + t.jobs, context, report FROM turn t CROSS JOIN small.letter_report;
INSERT INTO letter_group
SELECT id, fingerprint, cause, error_type, sample, 10 * letters, 10 * failures, under_way, recovered, relapsed,
       first_seen / 10 + (SELECT later FROM turn WHERE k = 0), last_seen / 10 + (SELECT later FROM turn WHERE k = 9), state,
       state_since / 10 + (SELECT later FROM turn WHERE k = 0), note
FROM small.letter_group;
INSERT INTO ended SELECT job_id + t.jobs, event + t.events FROM turn t CROSS JOIN small.ended;
INSERT INTO event
SELECT seq + t.events, at / 10 + t.later, type_id, source_id, status, job_id + t.jobs, lane_id, parent + t.events, attempt, retries,
       max_retries, latency_ms, exit_code, importance, hypothesis,
       iif(caller_id LIKE 'tenant-%', caller_id, caller_id || t.again), tags, imported_at, detail
FROM turn t CROSS JOIN small.event;
INSERT INTO hour_count
SELECT (hour * 3600000 / 10 + t.later) / 3600000, lane_id, what, sum(n) FROM turn t CROSS JOIN small.hour_count GROUP BY 1, 2, 3;
DROP TABLE turn;
