UPDATE task_plan SET plan = ?2 WHERE task_id = ?1
