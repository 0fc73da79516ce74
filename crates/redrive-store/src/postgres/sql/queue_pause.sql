UPDATE redrive.queue SET paused_at = $2, paused_why = $3 WHERE id = $1
