-- Groups that are not there yet. Nobody who only adds a letter waits for the row of a group.
INSERT INTO redrive.letter_group (fingerprint, cause, error_type, sample, letters, failures, under_way, recovered, relapsed,
                                  first_seen, last_seen, state, state_since)
SELECT g.fingerprint, g.cause, g.error_type, g.sample, 0, 0, 0, 0, 0, g.first_seen, g.last_seen, 0, g.since
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS g (fingerprint, cause, error_type, sample, first_seen, last_seen, since)
WHERE NOT EXISTS (SELECT 1 FROM redrive.letter_group k WHERE k.fingerprint = g.fingerprint)
ORDER BY g.fingerprint COLLATE "C" ON CONFLICT (fingerprint) DO NOTHING
