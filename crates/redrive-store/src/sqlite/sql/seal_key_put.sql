-- The newest row seals. A key that comes back is the newest again.
INSERT OR REPLACE INTO seal_key (number, key_id, proof, since)
VALUES (coalesce((SELECT max(number) FROM seal_key), 0) + 1, ?1, ?2, ?3)
