UPDATE redrive_run SET moved = moved + ?2, skipped = skipped + ?3 WHERE id = ?1
