SELECT id FROM name WHERE text = ?1
