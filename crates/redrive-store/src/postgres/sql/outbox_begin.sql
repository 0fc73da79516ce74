UPDATE redrive.outbox SET sends = sends + 1, sent_at = $2 WHERE id = $1
