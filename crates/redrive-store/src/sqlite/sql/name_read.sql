SELECT text FROM name WHERE id = ?1
