INSERT INTO notice (id, space, name, version, value, due_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET version = ?4, value = ?5, due_at = ?6, changed_at = ?7
