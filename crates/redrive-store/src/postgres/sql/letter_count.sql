SELECT count(*) FROM redrive.dead_letter d
