-- At its old place: its number stays.
UPDATE outbox SET state = 0, sends = 0, not_before = ?2, ended_at = NULL WHERE id = ?1 AND state = 2 RETURNING lane, key
