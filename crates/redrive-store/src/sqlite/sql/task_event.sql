SELECT event FROM task WHERE id = ?1
