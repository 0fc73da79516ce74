SELECT id, paused_at IS NOT NULL FROM queue WHERE name = ?1
