-- What a claim or a holder meets, which nobody changes until the end. What others have taken hold of is left out: nobody waits here.
SELECT k.id, k.principal, k.key, k.endpoint, k.request_hash, k.state, k.incarnation, k.leased_until, k.expires_at, k.job_id, k.created_at,
       k.ended_at
FROM redrive.idempotency_keys k WHERE k.id = ANY ($1) ORDER BY k.id FOR UPDATE SKIP LOCKED
