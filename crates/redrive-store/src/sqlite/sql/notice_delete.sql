DELETE FROM notice WHERE id = ?1
