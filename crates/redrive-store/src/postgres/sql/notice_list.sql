SELECT space, name, version, value, due_at, changed_at FROM redrive.notice WHERE space = $1 AND name > $2 ORDER BY name LIMIT $3
