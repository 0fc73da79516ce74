INSERT INTO event (seq, at, type_id, source_id, status, job_id, lane_id, parent, attempt, retries, max_retries, latency_ms,
                   exit_code, importance, hypothesis, caller_id, tags, imported_at, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
