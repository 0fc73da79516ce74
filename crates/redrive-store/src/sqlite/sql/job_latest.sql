-- The latest event of a job, wherever the job stands.
SELECT coalesce((SELECT event FROM lease WHERE job_id = ?1), (SELECT event FROM dead_letter WHERE job_id = ?1),
                (SELECT event FROM progress WHERE job_id = ?1), (SELECT event FROM job WHERE id = ?1),
                (SELECT event FROM ended WHERE job_id = ?1))
