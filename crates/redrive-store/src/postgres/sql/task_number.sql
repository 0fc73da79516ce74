SELECT nextval('redrive.task_id_seq')
