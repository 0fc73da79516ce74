UPDATE job SET payload = ?2, overrides = ?3 WHERE id = ?1
