INSERT INTO worker (id, label, started_at, seen_at, expires_at, lasts_ms) VALUES (?1, ?2, ?3, ?3, ?3 + ?4, ?4)
