DELETE FROM redrive_item WHERE run_id = ?1
