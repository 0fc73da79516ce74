-- The first and the last number of each table with sealed cells, in the order of the steps.
SELECT (SELECT min(id) FROM job), (SELECT max(id) FROM job),
       (SELECT min(job_id) FROM progress), (SELECT max(job_id) FROM progress),
       (SELECT min(job_id) FROM lease), (SELECT max(job_id) FROM lease),
       (SELECT min(job_id) FROM dead_letter), (SELECT max(job_id) FROM dead_letter),
       (SELECT min(seq) FROM event), (SELECT max(seq) FROM event),
       (SELECT min(id) FROM aside), (SELECT max(id) FROM aside),
       (SELECT min(job_id) FROM letter_report), (SELECT max(job_id) FROM letter_report),
       (SELECT min(id) FROM letter_group), (SELECT max(id) FROM letter_group),
       (SELECT min(id) FROM payload_version), (SELECT max(id) FROM payload_version),
       (SELECT min(id) FROM task), (SELECT max(id) FROM task),
       (SELECT min(task_id) FROM task_plan), (SELECT max(task_id) FROM task_plan),
       (SELECT min(id) FROM escalation_ack), (SELECT max(id) FROM escalation_ack)
