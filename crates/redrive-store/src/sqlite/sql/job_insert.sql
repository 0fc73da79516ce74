INSERT INTO job (id, lane_id, payload, enqueued_at, run_at, rank, source_id, event, policy, overrides, caller_id,
                 idempotency_key, unique_key, timeout_ms, deadline_at, origin, inline, target)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
