SELECT id, paused_at FROM redrive.queue WHERE name = $1
