UPDATE redrive.outbox SET call = $2, last = $3 WHERE id = $1
