DELETE FROM redrive.outbox WHERE id = $1 AND state <> 1 RETURNING lane, key, sends
