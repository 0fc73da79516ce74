SELECT job_id, context, report FROM letter_report WHERE job_id > ?1 ORDER BY job_id LIMIT ?2
