SELECT event FROM redrive.task WHERE id = $1
