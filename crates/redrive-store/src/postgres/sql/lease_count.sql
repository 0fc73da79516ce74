SELECT count(*) FROM redrive.lease
