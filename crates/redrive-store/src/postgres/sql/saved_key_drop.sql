DELETE FROM redrive.saved_key WHERE name = ANY ($1)
