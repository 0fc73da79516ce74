SELECT id FROM worker WHERE expires_at <= ?1
