-- What waits for a person besides letters; each up to a bound, so that nobody waits for the counting.
SELECT (SELECT count(*) FROM (SELECT 1 FROM idempotency_keys WHERE state = 2 LIMIT ?1)),
       (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state = 2 LIMIT ?1))
