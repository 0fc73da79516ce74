SELECT name, paused_at, paused_why FROM redrive.queue ORDER BY name COLLATE "C"
