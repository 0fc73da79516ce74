DELETE FROM saved_key WHERE name = ?1 AND key = ?2
