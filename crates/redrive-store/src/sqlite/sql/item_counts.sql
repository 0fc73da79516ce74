SELECT outcome, fingerprint, count(*) FROM redrive_item WHERE run_id = ?1 AND (?2 IS NULL OR step = ?2)
GROUP BY outcome, fingerprint ORDER BY outcome, fingerprint
