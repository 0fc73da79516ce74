SELECT id, principal, key, endpoint, request_hash, state, created_at, leased_until, ended_at, expires_at, response_status,
       response_headers, job_id
FROM idempotency_keys
