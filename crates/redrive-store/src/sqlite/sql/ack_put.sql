INSERT INTO escalation_ack (subject, at, note) VALUES (?1, ?2, ?3) ON CONFLICT (subject) DO UPDATE SET at = ?2, note = ?3
