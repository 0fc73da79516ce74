SELECT task_id, plan FROM redrive.task_plan WHERE task_id > $1 ORDER BY task_id LIMIT $2
