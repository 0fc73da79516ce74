SELECT inline FROM job WHERE id = ?1
