SELECT id, payload FROM redrive.payload_version WHERE id > $1 ORDER BY id LIMIT $2
