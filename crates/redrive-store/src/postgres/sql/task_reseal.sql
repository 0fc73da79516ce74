UPDATE redrive.task SET progress = $2, why = $3, report = $4 WHERE id = $1
