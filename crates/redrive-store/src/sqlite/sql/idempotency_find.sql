-- What a claim finds, with the answer, and under which keys it is sealed: one look is enough for a replay.
SELECT s.key_epoch, s.store_id, k.id, k.endpoint, k.request_hash, k.state, k.leased_until, k.expires_at, k.job_id, k.created_at,
       k.ended_at, k.response_status, k.response_headers, k.response_body
FROM store s LEFT JOIN idempotency_keys k ON k.principal = ?1 AND k.key = ?2
