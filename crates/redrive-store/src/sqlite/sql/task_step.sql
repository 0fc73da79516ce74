-- How far the task is, and its latest event. One that is over is nobody's; one that goes on again is over no more.
UPDATE task SET progress = coalesce(?2, progress), waiting = ?3, started = ?4, succeeded = ?5, failed = ?6, skipped = ?7,
                cancelled = ?8, state = ?9, why = ?10, report = ?11, ended_at = ?12, event = ?13, version = version + 1,
                held_by = CASE WHEN ?9 = 0 THEN held_by END, held_until = CASE WHEN ?9 = 0 THEN held_until END
WHERE id = ?1
