DELETE FROM redrive.operation WHERE id = ANY (ARRAY(SELECT o.id FROM redrive.operation o WHERE o.at < redrive.now_ms() - $1 LIMIT $2))
