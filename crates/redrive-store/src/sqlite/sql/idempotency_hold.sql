SELECT state, principal, key, endpoint FROM idempotency_keys WHERE id = ?1 AND incarnation = ?2
