INSERT INTO redrive.lease (job_id, lane_id, fence, worker_id, leased_at, expires_at, lease_for_ms, begun_at, attempts,
                           retries, crashes, source_id, flags, event)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
