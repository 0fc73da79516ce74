-- The first and the last number of each table with sealed cells, in the order of the steps.
SELECT (SELECT min(id) FROM redrive.job), (SELECT max(id) FROM redrive.job),
       (SELECT min(job_id) FROM redrive.progress), (SELECT max(job_id) FROM redrive.progress),
       (SELECT min(job_id) FROM redrive.lease), (SELECT max(job_id) FROM redrive.lease),
       (SELECT min(job_id) FROM redrive.dead_letter), (SELECT max(job_id) FROM redrive.dead_letter),
       (SELECT min(seq) FROM redrive.event), (SELECT max(seq) FROM redrive.event),
       (SELECT min(id) FROM redrive.aside), (SELECT max(id) FROM redrive.aside),
       (SELECT min(job_id) FROM redrive.letter_report), (SELECT max(job_id) FROM redrive.letter_report),
       (SELECT min(id) FROM redrive.letter_group), (SELECT max(id) FROM redrive.letter_group),
       (SELECT min(id) FROM redrive.payload_version), (SELECT max(id) FROM redrive.payload_version),
       (SELECT min(id) FROM redrive.task), (SELECT max(id) FROM redrive.task),
       (SELECT min(task_id) FROM redrive.task_plan), (SELECT max(task_id) FROM redrive.task_plan),
       (SELECT min(id) FROM redrive.escalation_ack), (SELECT max(id) FROM redrive.escalation_ack)
