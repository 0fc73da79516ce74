-- One that was taken for silent and is not holds its key again, as long as nobody else took it.
UPDATE idempotency_keys SET state = 0, leased_until = ?3, ended_at = NULL, expires_at = NULL
WHERE id = ?1 AND incarnation = ?2 AND state IN (0, 2)
