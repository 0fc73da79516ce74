DELETE FROM redrive.subtask WHERE task_id = ANY ($1)
