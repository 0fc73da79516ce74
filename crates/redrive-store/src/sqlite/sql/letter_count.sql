SELECT count(*)
