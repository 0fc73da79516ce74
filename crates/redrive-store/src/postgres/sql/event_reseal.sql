UPDATE redrive.event SET detail = $2 WHERE seq = $1
