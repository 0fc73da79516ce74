SELECT id, coalesce(length(response_body), 0) FROM idempotency_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
