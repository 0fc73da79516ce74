-- Whoever was taken for gone and speaks again is there again.
INSERT INTO redrive.worker (id, label, started_at, seen_at, expires_at, lasts_ms)
SELECT w.id, 'unknown', coalesce(w.at, redrive.now_ms()), coalesce(w.at, redrive.now_ms()),
       coalesce(w.at, redrive.now_ms()) + w.lasts, w.lasts
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS w (id, at, lasts)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, expires_at = excluded.expires_at, lasts_ms = excluded.lasts_ms
