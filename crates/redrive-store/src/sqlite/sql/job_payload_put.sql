UPDATE job SET payload = ?2 WHERE id = ?1
