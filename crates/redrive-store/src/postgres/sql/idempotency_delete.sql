DELETE FROM redrive.idempotency_keys k WHERE k.id = ANY ($1)
