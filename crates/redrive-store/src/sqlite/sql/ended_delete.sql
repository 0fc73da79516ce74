-- The story's last event went, and the story with it.
DELETE FROM ended WHERE job_id = ?1 AND event = ?2
