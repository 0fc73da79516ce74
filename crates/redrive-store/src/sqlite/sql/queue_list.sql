SELECT name, paused_at, paused_why FROM queue ORDER BY name
