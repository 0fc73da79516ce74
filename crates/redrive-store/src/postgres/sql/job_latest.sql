-- The latest event of each job, wherever the job stands, and in whose name it was told.
SELECT i.id, e.seq, e.source_id, e.caller_id
FROM unnest($1::bigint[]) AS i (id) JOIN redrive.event e ON e.seq =
     coalesce((SELECT l.event FROM redrive.lease l WHERE l.job_id = i.id), (SELECT d.event FROM redrive.dead_letter d WHERE d.job_id = i.id),
              (SELECT p.event FROM redrive.progress p WHERE p.job_id = i.id), (SELECT j.event FROM redrive.job j WHERE j.id = i.id),
              (SELECT x.event FROM redrive.ended x WHERE x.job_id = i.id))
