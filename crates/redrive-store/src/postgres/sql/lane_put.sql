INSERT INTO redrive.lane (queue_id, kind, ready, leased, dead, succeeded, cancelled, discarded)
VALUES ($1, $2, ($3::bigint[])[1], ($3::bigint[])[2], ($3::bigint[])[3], ($3::bigint[])[4], ($3::bigint[])[5], ($3::bigint[])[6])
ON CONFLICT (queue_id, kind) DO UPDATE SET ready = excluded.ready, leased = excluded.leased, dead = excluded.dead,
    succeeded = excluded.succeeded, cancelled = excluded.cancelled, discarded = excluded.discarded
RETURNING id
