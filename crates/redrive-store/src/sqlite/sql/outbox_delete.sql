DELETE FROM outbox WHERE id = ?1
