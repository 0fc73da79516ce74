DELETE FROM subtask WHERE task_id = ?1
