SELECT job_id FROM unique_job WHERE queue_id = ?1 AND key = ?2
