INSERT INTO redrive.delta (lane_id, ready, leased, dead, succeeded, cancelled, discarded, events, failed_events, cause,
                           letters, hours)
SELECT d.lane_id, d.ready, d.leased, d.dead, d.succeeded, d.cancelled, d.discarded, d.events, d.failed_events, d.cause,
       d.letters, d.hours::bigint[]
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::text[], $11::bigint[], $12::text[])
     AS d (lane_id, ready, leased, dead, succeeded, cancelled, discarded, events, failed_events, cause, letters, hours)
