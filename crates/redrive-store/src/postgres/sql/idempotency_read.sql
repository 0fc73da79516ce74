SELECT k.id, k.principal, k.key, k.endpoint, k.request_hash, k.state, k.created_at, k.leased_until, k.ended_at, k.expires_at,
       k.response_status, k.response_headers, k.job_id, k.response_body
FROM redrive.idempotency_keys k WHERE k.id = $1
