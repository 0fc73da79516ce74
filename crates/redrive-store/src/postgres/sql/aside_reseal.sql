UPDATE redrive.aside SET why = $2, text = $3 WHERE id = $1
