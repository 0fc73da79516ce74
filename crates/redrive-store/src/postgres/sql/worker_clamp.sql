-- The same for presence.
UPDATE redrive.worker
SET expires_at = lasts_ms + CASE WHEN expires_at > $1 + lasts_ms OR expires_at < $1 - greatest(lasts_ms, $2) THEN $1 ELSE $3 END
WHERE expires_at > $1 + lasts_ms OR expires_at < $1 - greatest(lasts_ms, $2)
   OR seen_at < $3 AND expires_at > 0 AND expires_at < $3 + lasts_ms
