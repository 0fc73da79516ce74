SELECT g.fingerprint FROM redrive.letter_group g
