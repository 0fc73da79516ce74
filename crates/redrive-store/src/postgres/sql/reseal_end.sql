DELETE FROM redrive.reseal
