UPDATE redrive.notice n SET version = v.version, value = v.value, due_at = v.due_at, changed_at = $4
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $5::bigint[]) AS v (id, version, value, due_at)
WHERE n.id = v.id
