INSERT INTO redrive.escalation_ack (subject, at, note) VALUES ($1, $2, $3)
ON CONFLICT (subject) DO UPDATE SET at = excluded.at, note = excluded.note
