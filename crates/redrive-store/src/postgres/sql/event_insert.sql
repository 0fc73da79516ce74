INSERT INTO redrive.event (seq, at, type_id, source_id, status, job_id, lane_id, parent, attempt, retries, max_retries,
                           latency_ms, exit_code, importance, hypothesis, caller_id, tags, imported_at, detail)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
                     $15::text[], $16::text[], $17::text[], $18::bigint[], $19::text[])
