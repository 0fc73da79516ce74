-- Whoever was taken for gone and speaks again is there again.
INSERT INTO worker (id, label, started_at, seen_at, expires_at, lasts_ms) VALUES (?1, 'unknown', ?2, ?2, ?2 + ?3, ?3)
ON CONFLICT (id) DO UPDATE SET seen_at = ?2, expires_at = ?2 + ?3, lasts_ms = ?3
