UPDATE redrive.progress SET hint = $2 WHERE job_id = $1
