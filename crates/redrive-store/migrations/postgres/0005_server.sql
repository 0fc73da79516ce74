-- The board: small facts that every process on the store shares. The twin of sqlite/0005_server.sql.

-- A notice under a space and a name. Its version comes from one sequence for all of them, so that it never returns.
CREATE TABLE redrive.notice (
    id         bigint PRIMARY KEY,
    space      text COLLATE "C" NOT NULL,                  -- token, schedule, alert, target, …
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    value      text NOT NULL,                  -- as JSON, sealed where there is a key
    due_at     bigint,                        -- when somebody must look at it again
    changed_at bigint NOT NULL
);
CREATE UNIQUE INDEX notice_name ON redrive.notice (space, name);
CREATE INDEX notice_due ON redrive.notice (space, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE redrive.board (
    one          bigint PRIMARY KEY CHECK (one = 1),
    next_version bigint NOT NULL
);
INSERT INTO redrive.board VALUES (1, 1);
ALTER TABLE redrive.notice SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200, fillfactor = 50);

-- What the work goes to, where whoever enqueued it says so: it is protected by that name.
ALTER TABLE redrive.job ADD COLUMN target text;
