-- A worker that is not known, or was taken for gone, counts as gone: the reaper finds what is reserved for it.
INSERT INTO worker (id, label, started_at, seen_at, expires_at, lasts_ms) VALUES (?1, 'unknown', 0, 0, 0, 0)
ON CONFLICT (id) DO NOTHING
