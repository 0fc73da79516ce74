-- Which of these are there, also while others have taken hold of them.
SELECT k.id FROM redrive.idempotency_keys k WHERE k.id = ANY ($1)
