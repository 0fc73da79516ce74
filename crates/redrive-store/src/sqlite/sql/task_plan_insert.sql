INSERT INTO task_plan (task_id, plan) VALUES (?1, ?2)
