-- Whoever has it may take it again; others only when its time is over. Nobody holds one for more than an hour: who seems to
-- has another clock.
INSERT INTO redrive.outbox_lane AS l (lane, held_by, held_until) VALUES ($1, $2, $4)
ON CONFLICT (lane) DO UPDATE SET held_by = $2, held_until = $4
WHERE l.held_by = $2 OR l.held_until <= $3 OR l.held_until > $3 + 3600000
