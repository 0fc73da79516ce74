INSERT INTO event_alias (event_id, seq) VALUES (?1, ?2) ON CONFLICT (event_id) DO NOTHING
