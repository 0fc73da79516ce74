-- A lease that outlasts its own length was written before the clock went back.
UPDATE lease SET expires_at = ?1 + lease_for_ms WHERE expires_at > ?1 + lease_for_ms
