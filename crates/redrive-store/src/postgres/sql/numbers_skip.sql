-- Far beyond what any server gives out before it copies.
SELECT setval('redrive.job_number', nextval('redrive.job_number') + 10000000),
       setval('redrive.worker_number', nextval('redrive.worker_number') + 10000000)
