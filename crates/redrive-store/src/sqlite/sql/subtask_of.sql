-- Of several with the same job, by its unique key, the newest task's.
SELECT task_id, number FROM subtask WHERE job_id = ?1 ORDER BY task_id DESC, number LIMIT 1
