UPDATE redrive.dead_letter SET error_message = $2, context = $3, report = $4 WHERE job_id = $1
