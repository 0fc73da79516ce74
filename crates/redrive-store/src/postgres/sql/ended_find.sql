SELECT event FROM redrive.ended WHERE job_id = $1
