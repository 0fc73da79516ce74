-- Which of these are letters, and the unique keys that they had.
SELECT d.job_id, l.queue_id, j.unique_key
FROM redrive.dead_letter d JOIN redrive.job j ON j.id = d.job_id JOIN redrive.lane l ON l.id = d.lane_id
WHERE d.job_id = ANY ($1)
