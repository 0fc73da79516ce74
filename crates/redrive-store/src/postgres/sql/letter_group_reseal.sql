UPDATE redrive.letter_group SET sample = $2 WHERE id = $1
