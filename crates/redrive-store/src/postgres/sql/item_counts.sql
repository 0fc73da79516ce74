SELECT outcome, fingerprint, count(*) FROM redrive.redrive_item
WHERE run_id = $1 AND ($2::bigint IS NULL OR step = $2) GROUP BY outcome, fingerprint
ORDER BY outcome, fingerprint COLLATE "C" NULLS FIRST
