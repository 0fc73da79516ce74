-- What people need to mend what failed: groups of letters, redrives as durable runs, edited payloads, paused queues, and
-- what happened by the hour.

-- No work of the queue is handed out while this is set.
ALTER TABLE queue ADD COLUMN paused_at INTEGER;
ALTER TABLE queue ADD COLUMN paused_why TEXT;

-- What a worker takes, as JSON arrays of names; an empty one: everything. Absent: it has not said.
ALTER TABLE worker ADD COLUMN queues TEXT;
ALTER TABLE worker ADD COLUMN kinds TEXT;

-- Where a job that was redriven came from: the group of its letter, the run that put it back, and when that was.
ALTER TABLE progress ADD COLUMN fingerprint TEXT;
ALTER TABLE progress ADD COLUMN run_id INTEGER;
ALTER TABLE progress ADD COLUMN redriven_at INTEGER;

-- The letters anew, without what is long and seldom read: a look at a million of them reads little.
CREATE TABLE letter_report (
    job_id  INTEGER PRIMARY KEY,
    context TEXT NOT NULL,
    report  TEXT NOT NULL
);
INSERT INTO letter_report SELECT job_id, context, report FROM dead_letter;

ALTER TABLE dead_letter ADD COLUMN caller_id TEXT;
ALTER TABLE dead_letter ADD COLUMN run_id INTEGER;         -- the run that put it back before it died again
UPDATE dead_letter SET caller_id = (SELECT j.caller_id FROM job j WHERE j.id = dead_letter.job_id);
ALTER TABLE dead_letter DROP COLUMN context;
ALTER TABLE dead_letter DROP COLUMN report;
CREATE INDEX dead_letter_cause ON dead_letter (cause, died_at);
CREATE INDEX dead_letter_lane ON dead_letter (lane_id, died_at);
CREATE INDEX dead_letter_caller ON dead_letter (caller_id, died_at) WHERE caller_id IS NOT NULL;

-- Failures that share a fingerprint. The counts are kept by the transactions that move letters.
CREATE TABLE letter_group (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    cause       TEXT NOT NULL,
    error_type  TEXT NOT NULL,
    sample      TEXT,                          -- the words of the first; sealed where there is a key. Absent: those of a letter
    letters     INTEGER NOT NULL,              -- dead now
    failures    INTEGER NOT NULL,              -- letters ever written
    under_way   INTEGER NOT NULL,              -- redriven, and not over yet
    recovered   INTEGER NOT NULL,              -- redriven, and succeeded
    relapsed    INTEGER NOT NULL,              -- attempts that failed in the same way after a redrive
    first_seen  INTEGER NOT NULL,
    last_seen   INTEGER NOT NULL,
    state       INTEGER NOT NULL,              -- 0 open, 1 acknowledged, 2 resolved, 3 regressed
    state_since INTEGER NOT NULL,
    note        TEXT                           -- what the person said who set the state
);
CREATE INDEX letter_group_size ON letter_group (letters, id);
INSERT INTO letter_group (fingerprint, cause, error_type, letters, failures, under_way, recovered, relapsed, first_seen,
                          last_seen, state, state_since)
SELECT fingerprint, min(cause), min(error_type), count(*), count(*), 0, 0, 0, min(died_at), max(died_at), 0, min(died_at)
FROM dead_letter GROUP BY fingerprint;

-- A redrive of many letters. What it takes and how is the engine's to say; a step counts only for who knows the version.
CREATE TABLE redrive_run (
    id         INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    wanted_by  TEXT NOT NULL,                  -- who wanted it: a person's command, or the name of a rule
    plan       TEXT NOT NULL,                  -- what it takes, how fast, in which steps; as JSON
    progress   TEXT NOT NULL,                  -- how far it is; as JSON
    moved      INTEGER NOT NULL,               -- letters that it has put back
    skipped    INTEGER NOT NULL,               -- letters that were none any more, or whose unique key is taken
    state      INTEGER NOT NULL,               -- 0 under way, 1 done, 2 cancelled, 3 stopped by itself
    why        TEXT,                           -- why it is over
    version    INTEGER NOT NULL,               -- grows with each change
    held_by    INTEGER,                        -- who moves it on, until when
    held_until INTEGER,
    ended_at   INTEGER
);
CREATE INDEX redrive_run_open ON redrive_run (id) WHERE state = 0;

-- The letters that a run in steps has put back, and how the first attempt of each went.
CREATE TABLE redrive_item (
    run_id      INTEGER NOT NULL,
    job_id      INTEGER NOT NULL,
    step        INTEGER NOT NULL,
    outcome     INTEGER NOT NULL,              -- 0 not known yet, 1 succeeded, 2 failed, 3 over without an attempt
    fingerprint TEXT,                          -- how it failed
    PRIMARY KEY (run_id, job_id)
) WITHOUT ROWID;
CREATE INDEX redrive_item_step ON redrive_item (run_id, step, outcome);

-- Payloads that somebody has replaced, the oldest with number 1.
CREATE TABLE payload_version (
    id      INTEGER PRIMARY KEY,
    job_id  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,                  -- when it was replaced
    edited_by TEXT NOT NULL,                   -- by whom
    payload BLOB NOT NULL,                     -- sealed where there is a key
    UNIQUE (job_id, version)
);

-- What happened in an hour, by lane. What the numbers mean stands in `metric.rs`.
CREATE TABLE hour_count (
    hour    INTEGER NOT NULL,                  -- hours since 1970
    lane_id INTEGER NOT NULL,
    what    INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (hour, lane_id, what)
) WITHOUT ROWID;
