-- What most events are: no words, only where the job stands.
INSERT INTO redrive.event (seq, at, type_id, source_id, status, job_id, lane_id, parent, attempt, retries, max_retries,
                           latency_ms)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
