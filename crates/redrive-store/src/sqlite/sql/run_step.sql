UPDATE redrive_run SET progress = ?2, state = ?3, why = ?4, version = version + 1, ended_at = ?5,
                       held_by = CASE WHEN ?5 IS NULL THEN held_by END, held_until = CASE WHEN ?5 IS NULL THEN held_until END
WHERE id = ?1 RETURNING version
