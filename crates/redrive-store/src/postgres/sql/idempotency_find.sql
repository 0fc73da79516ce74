-- What is known of each key, in their order, with the time and the epoch of the keys: the answer, too, where it is no more than $3 bytes
-- long. One statement for all who ask, and no lock.
SELECT redrive.now_ms(), e.key_epoch, c.at, k.*
FROM redrive.seal_epoch e
     CROSS JOIN unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (principal, key, at)
     CROSS JOIN LATERAL (
         SELECT k.id, k.endpoint, k.request_hash, k.state, k.leased_until, k.expires_at, k.job_id, k.created_at, k.ended_at,
                k.response_status, octet_length(k.response_body) > $3,
                CASE WHEN octet_length(k.response_body) > $3 THEN NULL ELSE k.response_headers END,
                CASE WHEN octet_length(k.response_body) > $3 THEN NULL ELSE k.response_body END
         FROM redrive.idempotency_keys k WHERE k.principal = c.principal AND k.key = c.key LIMIT 1) k
