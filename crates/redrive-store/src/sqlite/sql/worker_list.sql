SELECT id, label, started_at, seen_at, expires_at, queues, kinds FROM worker WHERE expires_at > ?1 ORDER BY id
