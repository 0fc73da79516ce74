SELECT space, name, version, value, due_at, changed_at FROM redrive.notice
WHERE space = $1 AND due_at IS NOT NULL AND due_at <= $2 ORDER BY due_at, id LIMIT $3
