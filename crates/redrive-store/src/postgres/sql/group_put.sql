UPDATE redrive.letter_group g
SET letters = p.letters, failures = p.failures, under_way = p.under_way, recovered = p.recovered, relapsed = p.relapsed,
    last_seen = p.last_seen, state = p.state, state_since = p.state_since, note = p.note
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::text[])
     AS p (fingerprint, letters, failures, under_way, recovered, relapsed, last_seen, state, state_since, note)
WHERE g.fingerprint = p.fingerprint
