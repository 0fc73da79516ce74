-- Records that are forgotten, with the bytes of their answers. What another sweeper has taken hold of is left to it.
SELECT k.id, coalesce(octet_length(k.response_body), 0)::bigint FROM redrive.idempotency_keys k
WHERE k.expires_at <= $1 AND k.state <> 0 ORDER BY k.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
