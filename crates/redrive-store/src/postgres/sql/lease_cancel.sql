-- Who asked first has said why.
UPDATE redrive.lease SET cancel_why = coalesce(cancel_why, $2) WHERE job_id = $1
