-- A fresh budget has as much time as the first one had.
UPDATE job SET deadline_at = ?2 + (deadline_at - enqueued_at) WHERE id = ?1 AND deadline_at <= ?2
