-- The board: small facts that every process on the store shares. The twin of sqlite/0005_server.sql.

-- A notice under a space and a name.
CREATE TABLE redrive.notice (
    id         bigint PRIMARY KEY,            -- the version that it was put up with
    space      text COLLATE "C" NOT NULL,                  -- token, schedule, alert, target, …
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,               -- a number of the transaction that changed it, as events have them: it never returns
    value      text NOT NULL,                  -- as JSON, sealed where there is a key
    due_at     bigint,                        -- when somebody must look at it again
    changed_at bigint NOT NULL
);
CREATE UNIQUE INDEX notice_name ON redrive.notice (space, name);
CREATE INDEX notice_due ON redrive.notice (space, due_at, id) WHERE due_at IS NOT NULL;

-- Few rows, changed often: what is left of that is cleaned up before it slows anybody down.
ALTER TABLE redrive.notice SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

-- Jobs of a caller's id, page by page.
DROP INDEX redrive.job_caller;
CREATE INDEX job_caller ON redrive.job (caller_id, id) WHERE caller_id IS NOT NULL;

-- What the work goes to, where whoever enqueued it says so: it is protected by that name.
ALTER TABLE redrive.job ADD COLUMN target text;
