SELECT id, sample, fingerprint FROM redrive.letter_group WHERE id > $1 ORDER BY id LIMIT $2
