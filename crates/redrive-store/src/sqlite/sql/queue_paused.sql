SELECT id FROM queue WHERE paused_at IS NOT NULL
