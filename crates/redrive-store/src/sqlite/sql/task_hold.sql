-- Whoever has it may take it again; others only when its time is over. Nobody holds one for more than an hour: who seems to
-- has another clock.
UPDATE task SET held_by = ?2, held_until = ?4
WHERE id = ?1 AND state = 0 AND (held_by IS NULL OR held_by = ?2 OR held_until <= ?3 OR held_until > ?3 + 3600000)
