-- What waits for a person besides letters; each up to $1: nobody waits for a count.
SELECT (SELECT count(*) FROM (SELECT 1 FROM redrive.idempotency_keys k WHERE k.state = 2 LIMIT $1) x),
       (SELECT count(*) FROM (SELECT 1 FROM redrive.outbox o WHERE o.state = 2 LIMIT $1) x)
