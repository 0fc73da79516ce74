INSERT INTO subtask (task_id, number, state, job_id, rounds, started_at, ended_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (task_id, number) DO UPDATE SET state = ?3, job_id = ?4, rounds = ?5, started_at = ?6, ended_at = ?7
