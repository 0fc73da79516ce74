INSERT INTO aside (at, origin, line, why, text) VALUES (?1, ?2, ?3, ?4, ?5)
