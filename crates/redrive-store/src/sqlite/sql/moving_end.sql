DELETE FROM moving WHERE state = ?1
