-- The board: small facts that every process on the store shares.

-- A notice under a space and a name.
CREATE TABLE notice (
    id         INTEGER PRIMARY KEY,            -- the version that it was put up with
    space      TEXT NOT NULL,                  -- token, schedule, alert, target, …
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,               -- from the sequence of events: it never returns
    value      TEXT NOT NULL,                  -- as JSON, sealed where there is a key
    due_at     INTEGER,                        -- when somebody must look at it again
    changed_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX notice_name ON notice (space, name);
CREATE INDEX notice_due ON notice (space, due_at, id) WHERE due_at IS NOT NULL;

-- What the work goes to, where whoever enqueued it says so: it is protected by that name.
ALTER TABLE job ADD COLUMN target TEXT;
