INSERT INTO dead_count (cause, transient, letters) VALUES (?1, ?2, ?3)
ON CONFLICT (cause) DO UPDATE SET letters = letters + ?3
