DELETE FROM redrive.moving WHERE state = $1
