-- A holder that was taken for silent is there again, if nobody took its key.
UPDATE redrive.idempotency_keys k SET state = 0, leased_until = r.leased_until, ended_at = NULL, expires_at = NULL
FROM unnest($1::bigint[], $2::bigint[]) AS r (id, leased_until) WHERE k.id = r.id
