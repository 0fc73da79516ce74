UPDATE redrive.idempotency_keys k SET state = 2, leased_until = NULL, ended_at = u.ended_at, expires_at = u.expires_at
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, ended_at, expires_at) WHERE k.id = u.id
