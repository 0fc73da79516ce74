INSERT INTO redrive.group_delta (fingerprint, letters, failures, under_way, recovered, relapsed, seen_at, at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
