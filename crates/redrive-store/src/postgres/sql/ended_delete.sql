-- The story's last event went, and the story with it.
DELETE FROM redrive.ended e USING unnest($1::bigint[], $2::bigint[]) AS g (job_id, event)
WHERE e.job_id = g.job_id AND e.event = g.event
