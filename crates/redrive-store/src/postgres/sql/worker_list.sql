SELECT id, label, started_at, seen_at, expires_at, queues, kinds FROM redrive.worker WHERE expires_at > coalesce($1, redrive.now_ms()) ORDER BY id
