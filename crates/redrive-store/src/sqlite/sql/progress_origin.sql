-- Where a job that was redriven came from.
SELECT fingerprint, run_id, redriven_at FROM progress WHERE job_id = ?1 AND redriven_at IS NOT NULL
