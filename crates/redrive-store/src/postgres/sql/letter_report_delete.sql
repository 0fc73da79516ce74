DELETE FROM redrive.letter_report WHERE job_id = ANY ($1)
