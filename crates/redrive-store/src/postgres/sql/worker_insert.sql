INSERT INTO redrive.worker (id, label, started_at, seen_at, expires_at, lasts_ms)
VALUES (nextval('redrive.worker_number'), $1, $2, $2, $2::bigint + $3::bigint, $3) RETURNING id
