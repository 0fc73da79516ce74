SELECT id, response_headers, response_body FROM redrive.idempotency_keys WHERE id > $1 ORDER BY id LIMIT $2
