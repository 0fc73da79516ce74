INSERT INTO redrive.job (id, lane_id, payload, enqueued_at, run_at, rank, source_id, event, policy, overrides, caller_id,
                         idempotency_key, unique_key, timeout_ms, deadline_at, origin, inline, target)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                     $15::bigint[], $16::bigint[], $17::boolean[], $18::text[])
