INSERT INTO redrive.aside (id, at, origin, line, why, text)
SELECT a.id, $2, a.origin, a.line, a.why, a.text
FROM unnest($1::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bytea[]) AS a (id, origin, line, why, text)
