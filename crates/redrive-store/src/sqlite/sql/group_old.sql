-- Nothing of them is dead or on its way, and nothing has happened to them for long.
DELETE FROM letter_group WHERE id IN (
    SELECT id FROM letter_group WHERE letters = 0 AND under_way = 0 AND last_seen < ?1 AND state_since < ?1 LIMIT ?2)
