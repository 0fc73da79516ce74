-- The same for presence.
UPDATE worker SET expires_at = ?1 + lasts_ms WHERE expires_at > ?1 + lasts_ms OR expires_at < ?1 - max(lasts_ms, ?2)
