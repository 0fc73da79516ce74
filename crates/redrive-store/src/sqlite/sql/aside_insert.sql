INSERT INTO aside (id, at, origin, line, why, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
