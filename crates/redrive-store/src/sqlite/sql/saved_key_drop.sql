DELETE FROM saved_key WHERE name = ?1
