-- A letter with its payload, and how often that was replaced.
SELECT j.payload, d.event, (SELECT count(*) FROM payload_version v WHERE v.job_id = d.job_id)
FROM dead_letter d JOIN job j ON j.id = d.job_id WHERE d.job_id = ?1
