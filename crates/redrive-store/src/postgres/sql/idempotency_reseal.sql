UPDATE redrive.idempotency_keys SET response_headers = $2, response_body = $3 WHERE id = $1
