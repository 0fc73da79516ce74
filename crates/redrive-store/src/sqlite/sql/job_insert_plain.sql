-- The same for a job that says nothing special: fewer values to bind.
INSERT INTO job (id, lane_id, payload, enqueued_at, run_at, rank, source_id, event)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
