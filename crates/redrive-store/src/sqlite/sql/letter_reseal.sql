UPDATE dead_letter SET error_message = ?2 WHERE job_id = ?1
