-- A letter with its payload, and how often that was replaced. Nobody puts it back or replaces it until this is decided.
SELECT j.payload, d.event, (SELECT count(*) FROM redrive.payload_version v WHERE v.job_id = d.job_id)
FROM redrive.dead_letter d JOIN redrive.job j ON j.id = d.job_id WHERE d.job_id = $1 FOR UPDATE OF d, j
