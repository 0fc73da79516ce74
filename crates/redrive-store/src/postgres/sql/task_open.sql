SELECT id FROM redrive.task WHERE state = 0 ORDER BY id DESC LIMIT $1
