UPDATE redrive.store SET timeline = $1
