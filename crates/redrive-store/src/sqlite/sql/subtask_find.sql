SELECT number, state, job_id, rounds, started_at, ended_at FROM subtask WHERE task_id = ?1 AND number = ?2
