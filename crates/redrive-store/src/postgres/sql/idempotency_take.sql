-- Gives keys to new holders. One that was forgotten is a new record, with a number of its own.
UPDATE redrive.idempotency_keys k
SET id = t.new_id, endpoint = t.endpoint, request_hash = t.request_hash, state = 0, incarnation = t.incarnation,
    leased_until = t.leased_until, job_id = t.job_id, created_at = t.created_at, ended_at = NULL, expires_at = NULL,
    response_status = NULL, response_headers = NULL, response_body = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
     AS t (id, new_id, endpoint, request_hash, incarnation, leased_until, job_id, created_at)
WHERE k.id = t.id
