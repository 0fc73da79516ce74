DELETE FROM redrive.ready r USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS d (lane_id, rank, run_at, job_id)
WHERE r.lane_id = d.lane_id AND r.rank = d.rank AND r.run_at = d.run_at AND r.job_id = d.job_id
