SELECT id, version FROM notice WHERE space = ?1 AND name = ?2
