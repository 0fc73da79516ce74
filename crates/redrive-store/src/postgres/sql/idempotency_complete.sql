UPDATE redrive.idempotency_keys k
SET state = 1, leased_until = NULL, response_status = a.status, response_headers = a.headers, response_body = a.body,
    ended_at = a.ended_at, expires_at = a.expires_at
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])
     AS a (id, status, headers, body, ended_at, expires_at)
WHERE k.id = a.id
