-- At their old places: their numbers stay.
UPDATE redrive.outbox SET state = 0, sends = 0, not_before = $2, ended_at = NULL WHERE id = ANY ($1) AND state = 2 RETURNING id, lane, key
