SELECT at FROM event WHERE seq = ?1
