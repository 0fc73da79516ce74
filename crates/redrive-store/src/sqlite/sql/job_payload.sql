SELECT payload FROM job WHERE id = ?1
