-- Holders that fell silent, the longest first. What somebody has taken hold of is theirs to move.
SELECT k.id, k.principal, k.key, k.endpoint FROM redrive.idempotency_keys k
WHERE k.state = 0 AND k.leased_until <= $1 ORDER BY k.leased_until LIMIT $2 FOR UPDATE SKIP LOCKED
