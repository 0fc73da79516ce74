INSERT INTO redrive.delta (lane_id, ready, leased, dead, succeeded, cancelled, discarded, events, failed_events, cause,
                           letters)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::text[], $11::bigint[])
