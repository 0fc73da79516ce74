SELECT setval('redrive.job_number', greatest($1, (SELECT last_value FROM redrive.job_number), 1), false),
       setval('redrive.worker_number', greatest($2, (SELECT last_value FROM redrive.worker_number), 1), false)
