UPDATE lease SET expires_at = ?3 + lease_for_ms WHERE job_id = ?1 AND fence = ?2 RETURNING cancel_why IS NOT NULL
