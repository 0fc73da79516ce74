-- A presence that outlasts its own length was written before the clock went back.
UPDATE worker SET expires_at = ?1 + lasts_ms WHERE expires_at > ?1 + lasts_ms
