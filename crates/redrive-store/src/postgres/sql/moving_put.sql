INSERT INTO redrive.moving (one, state, place, until) VALUES (1, $1, $2, coalesce(redrive.now_ms() + $3, 0))
ON CONFLICT (one) DO UPDATE SET state = excluded.state, place = excluded.place, until = excluded.until
