DELETE FROM redrive.operation WHERE at < $1
