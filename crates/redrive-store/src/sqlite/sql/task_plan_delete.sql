DELETE FROM task_plan WHERE task_id = ?1
