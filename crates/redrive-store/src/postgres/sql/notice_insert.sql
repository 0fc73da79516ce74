-- What somebody else put up in this moment stays as it is.
INSERT INTO redrive.notice (id, space, name, version, value, due_at, changed_at)
SELECT v.id, v.space, v.name, v.id, v.value, v.due_at, $5
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $6::bigint[]) AS v (id, space, name, value, due_at)
ORDER BY v.space, v.name
ON CONFLICT (space, name) DO NOTHING
