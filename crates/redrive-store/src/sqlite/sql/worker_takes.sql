UPDATE worker SET queues = ?2, kinds = ?3 WHERE id = ?1
