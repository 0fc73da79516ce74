SELECT held_for FROM progress WHERE job_id = ?1
