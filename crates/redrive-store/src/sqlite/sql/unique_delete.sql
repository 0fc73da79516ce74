DELETE FROM unique_job WHERE queue_id = ?1 AND key = ?2 AND job_id = ?3
