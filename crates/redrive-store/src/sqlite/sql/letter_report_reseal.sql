UPDATE letter_report SET context = ?2, report = ?3 WHERE job_id = ?1
