DELETE FROM idempotency_keys WHERE id = ?1
