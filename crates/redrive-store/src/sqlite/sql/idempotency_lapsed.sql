SELECT id, principal, key, endpoint FROM idempotency_keys WHERE state = 0 AND leased_until <= ?1 ORDER BY leased_until LIMIT ?2
