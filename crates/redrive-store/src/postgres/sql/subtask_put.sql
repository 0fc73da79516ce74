INSERT INTO redrive.subtask (task_id, number, state, job_id, rounds, started_at, ended_at)
SELECT $1, s.number, s.state, s.job_id, s.rounds, s.started_at, s.ended_at
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS s (number, state, job_id, rounds, started_at, ended_at)
ON CONFLICT (task_id, number) DO UPDATE SET state = excluded.state, job_id = excluded.job_id, rounds = excluded.rounds,
    started_at = excluded.started_at, ended_at = excluded.ended_at
