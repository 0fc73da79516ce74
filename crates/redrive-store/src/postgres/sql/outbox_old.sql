-- What another sweeper has taken hold of is left to it.
SELECT id, octet_length(call)::bigint FROM redrive.outbox WHERE state = 1 AND ended_at < $1 ORDER BY ended_at LIMIT $2
FOR UPDATE SKIP LOCKED
