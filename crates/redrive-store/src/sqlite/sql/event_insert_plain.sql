-- What most events are: no words, only where the job stands.
INSERT INTO event (seq, at, type_id, source_id, status, job_id, lane_id, parent, attempt, retries, max_retries, latency_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
