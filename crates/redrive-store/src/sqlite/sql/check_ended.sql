SELECT 'job_' || e.job_id || ' has ended and is still there' FROM ended e JOIN job j ON j.id = e.job_id
