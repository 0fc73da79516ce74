SELECT 'job_' || e.job_id || ' has ended and is still there' FROM redrive.ended e JOIN redrive.job j ON j.id = e.job_id
