SELECT id FROM queue WHERE name = ?1
