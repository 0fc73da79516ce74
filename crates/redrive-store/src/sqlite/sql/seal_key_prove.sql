UPDATE seal_key SET proof = ?2 WHERE key_id = ?1
