SELECT count(*) FROM redrive.worker WHERE expires_at > coalesce($1, redrive.now_ms())
