SELECT at FROM event WHERE seq = ?1 AND imported_at IS NULL
