SELECT id, label, started_at, seen_at, expires_at FROM worker WHERE expires_at > ?1 ORDER BY id
