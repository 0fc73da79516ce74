UPDATE redrive.outbox SET state = $2, sends = $3, not_before = $4, sent_at = $5, ended_at = $6, last = $7, last_status = $8 WHERE id = $1
