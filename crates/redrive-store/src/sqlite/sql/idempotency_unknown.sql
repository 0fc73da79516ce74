UPDATE idempotency_keys SET state = 2, leased_until = NULL, ended_at = ?2, expires_at = ?3 WHERE id = ?1
