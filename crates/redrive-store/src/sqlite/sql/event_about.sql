-- In whose name an event was told.
SELECT source_id, caller_id FROM event WHERE seq = ?1
