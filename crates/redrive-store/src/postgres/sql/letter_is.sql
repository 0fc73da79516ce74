-- Which of these are letters, the unique keys that they had, and whether that run has put them back before.
SELECT d.job_id, l.queue_id, j.unique_key,
       coalesce(d.run_id = $2, false) OR EXISTS (SELECT 1 FROM redrive.redrive_item i WHERE i.run_id = $2 AND i.job_id = d.job_id)
FROM redrive.dead_letter d JOIN redrive.job j ON j.id = d.job_id JOIN redrive.lane l ON l.id = d.lane_id
WHERE d.job_id = ANY ($1)
