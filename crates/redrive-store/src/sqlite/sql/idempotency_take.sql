UPDATE idempotency_keys SET endpoint = ?2, state = 0, incarnation = ?3, leased_until = ?4, job_id = ?5, ended_at = NULL, expires_at = NULL
WHERE id = ?1
