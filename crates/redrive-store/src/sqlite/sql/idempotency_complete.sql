UPDATE idempotency_keys SET state = 1, leased_until = NULL, response_status = ?3, response_headers = ?4, response_body = ?5, ended_at = ?6,
       expires_at = ?7
WHERE id = ?1 AND incarnation = ?2 AND state IN (0, 2)
