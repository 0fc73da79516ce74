DELETE FROM letter_report WHERE job_id = ?1
