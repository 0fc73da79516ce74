UPDATE worker SET seen_at = ?2, expires_at = ?2 + ?3, lasts_ms = ?3 WHERE id = ?1
