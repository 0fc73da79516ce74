SELECT id FROM redrive.queue WHERE name = $1
