-- What must be tidied up or told when a job leaves.
SELECT j.caller_id, j.unique_key, l.queue_id, j.rank, j.policy, j.source_id, j.deadline_at FROM job j JOIN lane l ON l.id = j.lane_id WHERE j.id = ?1
