-- A worker that is not known, or was taken for gone, counts as gone: the reaper finds what is reserved for it.
INSERT INTO redrive.worker (id, label, started_at, seen_at, expires_at, lasts_ms)
SELECT DISTINCT w, 'unknown', 0, 0, 0, 0 FROM unnest($1::bigint[]) AS w ON CONFLICT (id) DO NOTHING
