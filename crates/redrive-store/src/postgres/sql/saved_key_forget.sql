DELETE FROM redrive.saved_key WHERE name = $1
