INSERT OR REPLACE INTO reseal (one, key_id, step, reached, cells) VALUES (1, ?1, ?2, ?3, ?4)
