SELECT count(*) FROM worker WHERE expires_at > ?1
