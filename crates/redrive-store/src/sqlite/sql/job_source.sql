SELECT source_id FROM job WHERE id = ?1
