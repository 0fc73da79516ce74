INSERT INTO letter_report (job_id, context, report) VALUES (?1, ?2, ?3)
