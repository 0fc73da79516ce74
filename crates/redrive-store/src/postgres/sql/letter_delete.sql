DELETE FROM redrive.dead_letter d USING redrive.job j WHERE d.job_id = ANY ($1) AND j.id = d.job_id
RETURNING d.job_id, d.lane_id, d.cause, d.event, d.fence, d.redrives, j.source_id, j.caller_id, j.rank, d.fingerprint, j.deadline_at
