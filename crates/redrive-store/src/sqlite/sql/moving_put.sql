INSERT INTO moving (one, state, place, until) VALUES (1, ?1, ?2, ?3)
ON CONFLICT (one) DO UPDATE SET state = ?1, place = ?2, until = ?3
