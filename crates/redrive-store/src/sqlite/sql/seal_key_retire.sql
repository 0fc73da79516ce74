DELETE FROM seal_key WHERE key_id <> ?1 RETURNING key_id
