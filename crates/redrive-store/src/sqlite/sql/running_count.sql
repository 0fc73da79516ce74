-- What a store that is to move waits for: jobs that run, and requests that hold a key and have not fallen silent.
SELECT (SELECT count(*) FROM lease) + (SELECT count(*) FROM idempotency_keys WHERE state = 0 AND leased_until > ?1)
