UPDATE notice SET value = ?2 WHERE id = ?1
