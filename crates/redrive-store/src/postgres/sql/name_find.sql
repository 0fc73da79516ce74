SELECT id FROM redrive.name WHERE text = $1
