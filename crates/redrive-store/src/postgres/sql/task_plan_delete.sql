DELETE FROM redrive.task_plan WHERE task_id = ANY ($1)
