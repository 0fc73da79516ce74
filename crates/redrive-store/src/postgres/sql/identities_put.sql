-- What is made from now on gets numbers behind all that came with the copy.
SELECT setval('redrive.letter_group_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM redrive.letter_group), false),
       setval('redrive.redrive_run_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM redrive.redrive_run), false),
       setval('redrive.payload_version_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM redrive.payload_version), false),
       setval('redrive.task_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM redrive.task), false),
       setval('redrive.escalation_ack_id_seq', (SELECT coalesce(max(id), 0) + 1 FROM redrive.escalation_ack), false)
