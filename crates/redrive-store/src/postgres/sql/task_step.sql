-- How far the task is, and its latest event. One that is over is nobody's; one that goes on again is over no more.
UPDATE redrive.task
SET progress = coalesce($2::text, progress), waiting = ($3::bigint[])[1], started = ($3::bigint[])[2], succeeded = ($3::bigint[])[3],
    failed = ($3::bigint[])[4], skipped = ($3::bigint[])[5], cancelled = ($3::bigint[])[6], state = $4, why = $5, report = $6,
    ended_at = $7, event = $8, version = version + 1, held_by = CASE WHEN $4 = 0 THEN held_by END,
    held_until = CASE WHEN $4 = 0 THEN held_until END
WHERE id = $1
