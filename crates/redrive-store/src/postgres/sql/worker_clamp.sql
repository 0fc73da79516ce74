-- The same for presence.
UPDATE redrive.worker SET expires_at = $1 + lasts_ms
WHERE expires_at > $1 + lasts_ms OR expires_at < $1 - greatest(lasts_ms, $2)
