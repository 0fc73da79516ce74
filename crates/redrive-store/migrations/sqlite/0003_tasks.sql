-- Tasks: jobs that depend on one another, each step of which is written with the jobs that it starts.

-- A task. What its plan says is the engine's to read; a step counts only for who knows the version. The counts of subtasks are
-- kept by the transactions that move them; one without a row waits.
CREATE TABLE task (
    id         INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    name       TEXT NOT NULL,
    place      TEXT,                           -- where its plan was read from
    subtasks   INTEGER NOT NULL,               -- how many its plan has
    waiting    INTEGER NOT NULL,
    started    INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    skipped    INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    progress   TEXT NOT NULL,                  -- what the engine remembers; as JSON, sealed where there is a key
    state      INTEGER NOT NULL,               -- 0 running, 1 succeeded, 2 partial, 3 escalated, 4 cancelled
    why        TEXT,                           -- why it is over; sealed where there is a key
    report     TEXT,                           -- what a person was told; as JSON, sealed where there is a key
    version    INTEGER NOT NULL,               -- grows with each change
    held_by    INTEGER,                        -- who moves it on, until when
    held_until INTEGER,
    ended_at   INTEGER,
    event      INTEGER NOT NULL                -- its latest event
);
CREATE INDEX task_open ON task (id) WHERE state = 0;
CREATE INDEX task_place ON task (place, id) WHERE place IS NOT NULL;
CREATE INDEX task_over ON task (ended_at) WHERE state <> 0;
CREATE INDEX task_told ON task (ended_at, id) WHERE state IN (2, 3);

-- Plans apart: they may be long and never change, and a step must not write them again.
CREATE TABLE task_plan (
    task_id INTEGER PRIMARY KEY,
    plan    TEXT NOT NULL                      -- as JSON, sealed where there is a key
);

-- The subtasks that were begun once, or stand elsewhere than at the beginning.
CREATE TABLE subtask (
    task_id    INTEGER NOT NULL,
    number     INTEGER NOT NULL,               -- in the plan, from 0
    state      INTEGER NOT NULL,               -- 0 waiting, 1 started, 2 succeeded, 3 failed, 4 skipped, 5 cancelled
    job_id     INTEGER,
    rounds     INTEGER NOT NULL,               -- how often it was begun
    started_at INTEGER,
    ended_at   INTEGER,
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID;
CREATE INDEX subtask_job ON subtask (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX subtask_started ON subtask (task_id, number) WHERE state = 1;

-- Escalations that somebody has seen.
CREATE TABLE escalation_ack (
    id      INTEGER PRIMARY KEY,
    subject TEXT NOT NULL UNIQUE,              -- the id of a task or a job, as people write it
    at      INTEGER NOT NULL,
    note    TEXT                               -- what the person said; sealed where there is a key
);
CREATE INDEX escalation_ack_age ON escalation_ack (at);
