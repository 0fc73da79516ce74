-- Groups of which nothing is left, and whose last change is old. One that has changes to be added up stays.
DELETE FROM redrive.letter_group WHERE id = ANY (ARRAY(
    SELECT g.id FROM redrive.letter_group g
    WHERE g.letters = 0 AND g.under_way = 0 AND g.last_seen < $1 AND g.state_since < $1
      AND NOT EXISTS (SELECT 1 FROM redrive.group_delta d WHERE d.fingerprint = g.fingerprint)
      AND NOT EXISTS (SELECT 1 FROM redrive.dead_letter l WHERE l.fingerprint = g.fingerprint)
    LIMIT $2))
