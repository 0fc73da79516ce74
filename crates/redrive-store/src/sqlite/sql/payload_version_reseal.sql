UPDATE payload_version SET payload = ?2 WHERE id = ?1
