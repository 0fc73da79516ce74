-- The board: small facts that every process on the store shares.

-- A notice under a space and a name. Its version comes from one sequence for all of them, so that it never returns.
CREATE TABLE notice (
    id         INTEGER PRIMARY KEY,
    space      TEXT NOT NULL,                  -- token, schedule, alert, target, …
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    value      TEXT NOT NULL,                  -- as JSON, sealed where there is a key
    due_at     INTEGER,                        -- when somebody must look at it again
    changed_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX notice_name ON notice (space, name);
CREATE INDEX notice_due ON notice (space, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE board (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    next_version INTEGER NOT NULL
);
INSERT INTO board VALUES (1, 1);

-- What the work goes to, where whoever enqueued it says so: it is protected by that name.
ALTER TABLE job ADD COLUMN target TEXT;
