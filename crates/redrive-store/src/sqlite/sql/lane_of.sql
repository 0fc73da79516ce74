SELECT id FROM lane WHERE queue_id = ?1 AND kind = ?2
