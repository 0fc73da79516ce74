-- Jobs, leases, dead letters and the event stream.
--
-- A job's own row never changes, unless it is sealed with another key. What changes is where its id stands: in `ready`, in `lease` or in `dead_letter`,
-- in exactly one of them while it lives, and in `ended` afterwards. A job that succeeds at once therefore costs a few
-- appends and deletes, however large its payload is.
-- Times are milliseconds since 1970 in UTC. Names that repeat are interned.

-- One row. The sequences never go back, so no number is ever used twice.
CREATE TABLE store (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    store_id      INTEGER NOT NULL,
    next_job      INTEGER NOT NULL,
    next_event    INTEGER NOT NULL,
    events        INTEGER NOT NULL,            -- how many there are
    failed_events INTEGER NOT NULL,            -- work that finally failed without a letter
    pruned_to     INTEGER NOT NULL,            -- how far the last round of pruning looked
    key_epoch     INTEGER NOT NULL             -- grows when a key comes, takes over or goes
);
INSERT INTO store VALUES (1, random(), 1, 1, 0, 0, 0, 0);

-- The keys that cells of this store are sealed with; none: nothing is sealed. The newest seals, the others only open.
CREATE TABLE seal_key (
    number INTEGER PRIMARY KEY,                -- in the order in which they took over
    key_id TEXT NOT NULL UNIQUE,
    proof  TEXT NOT NULL,                      -- a known text, sealed: it opens with the right key only
    since  INTEGER NOT NULL
);

-- One row while cells are being sealed anew: how far that has come.
CREATE TABLE reseal (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    key_id  TEXT NOT NULL,                     -- the key that everything is to be under
    step    INTEGER NOT NULL,                  -- which table
    reached INTEGER NOT NULL,                  -- up to which row of it
    cells   INTEGER NOT NULL                   -- sealed anew so far
);

-- One row while the store moves, and for ever once it has: draining (no work is handed out until then), arriving (the copy
-- may not be whole yet), moved (it lives elsewhere now).
CREATE TABLE moving (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL,
    place TEXT NOT NULL,                       -- where to, or where from
    until INTEGER NOT NULL
);

CREATE TABLE name (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

CREATE TABLE queue (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- The jobs of one kind in one queue. A worker leases by lane, so that work it cannot run is never looked at.
-- The counters are kept by the transactions that move jobs: nothing is ever counted by looking.
CREATE TABLE lane (
    id        INTEGER PRIMARY KEY,
    queue_id  INTEGER NOT NULL REFERENCES queue (id),
    kind      TEXT NOT NULL,
    ready     INTEGER NOT NULL DEFAULT 0,
    leased    INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    discarded INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue_id, kind)
);

CREATE TABLE job (
    id              INTEGER PRIMARY KEY,
    lane_id         INTEGER NOT NULL,
    payload         BLOB NOT NULL,
    enqueued_at     INTEGER NOT NULL,
    run_at          INTEGER NOT NULL,          -- the first time it is due
    rank            INTEGER NOT NULL,          -- the priority with its sign turned, so that the lowest comes first
    source_id       INTEGER NOT NULL,          -- what its events name as their source
    event           INTEGER NOT NULL,          -- the event of its enqueuing
    policy          TEXT,
    overrides       TEXT,
    caller_id       TEXT,
    idempotency_key TEXT,
    unique_key      TEXT,
    timeout_ms      INTEGER,
    deadline_at     INTEGER,
    origin          INTEGER NOT NULL DEFAULT 0, -- 0 here, 1 through the API: what came from outside may do less
    inline          INTEGER NOT NULL DEFAULT 0  -- 1: the work is a closure of the process that enqueued it
);
CREATE INDEX job_caller ON job (caller_id) WHERE caller_id IS NOT NULL;

-- Unfinished work by its unique key.
CREATE TABLE unique_job (
    queue_id INTEGER NOT NULL,
    key      TEXT NOT NULL,
    job_id   INTEGER NOT NULL,
    PRIMARY KEY (queue_id, key)
) WITHOUT ROWID;

-- Who may run next, in the order in which it will. A lane below zero is the reservation of the worker of that number:
-- nobody else leases from it while that worker's presence lasts.
CREATE TABLE ready (
    lane_id INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    run_at  INTEGER NOT NULL,
    job_id  INTEGER NOT NULL,
    PRIMARY KEY (lane_id, rank, run_at, job_id)
) WITHOUT ROWID;

-- What a job has been through, from the first time that it is put back.
CREATE TABLE progress (
    job_id        INTEGER PRIMARY KEY,
    run_at        INTEGER NOT NULL,
    held_for      INTEGER,                     -- the worker it is reserved for
    fence         INTEGER NOT NULL,            -- leases so far
    attempts      INTEGER NOT NULL,
    retries       INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    last_delay_ms INTEGER,
    hint          TEXT,
    redrives      INTEGER NOT NULL DEFAULT 0,
    event         INTEGER NOT NULL             -- its latest event
);

CREATE TABLE lease (
    job_id           INTEGER PRIMARY KEY,
    lane_id          INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    worker_id        INTEGER NOT NULL,
    leased_at        INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    lease_for_ms     INTEGER NOT NULL,
    begun_at         INTEGER,                  -- absent while its execution has not begun
    attempts         INTEGER NOT NULL,         -- this one included once it has begun
    retries          INTEGER NOT NULL,
    crashes          INTEGER NOT NULL,
    source_id        INTEGER NOT NULL,
    flags            INTEGER NOT NULL,         -- 1 has a unique key, 2 has a row in progress, 4 has a caller's id
    event            INTEGER NOT NULL,
    cancel_why       TEXT                      -- somebody wants the job over, for this reason
);

-- A worker's incarnation: a new number each time one starts.
CREATE TABLE worker (
    id         INTEGER PRIMARY KEY,
    label      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    lasts_ms   INTEGER NOT NULL
);

CREATE TABLE dead_letter (
    job_id        INTEGER PRIMARY KEY,
    lane_id       INTEGER NOT NULL,
    died_at       INTEGER NOT NULL,
    event         INTEGER NOT NULL,
    reason        TEXT NOT NULL,               -- non_retryable, exhausted, human_judgment, crashed, retry_after
    cause         TEXT NOT NULL,
    retryable     INTEGER NOT NULL,
    rule          TEXT NOT NULL,
    fingerprint   TEXT NOT NULL,
    error_type    TEXT NOT NULL,
    error_message TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    retries       INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    max_retries   INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    context       TEXT NOT NULL,
    report        TEXT NOT NULL,
    redrives      INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX dead_letter_age ON dead_letter (died_at);
CREATE INDEX dead_letter_group ON dead_letter (fingerprint, died_at);

-- Letters by cause, so that nobody counts them.
CREATE TABLE dead_count (
    cause     TEXT NOT NULL,
    transient INTEGER NOT NULL,
    letters   INTEGER NOT NULL,
    PRIMARY KEY (cause)
) WITHOUT ROWID;

-- Jobs that are over: where their story ends.
CREATE TABLE ended (
    job_id   INTEGER PRIMARY KEY,
    event    INTEGER NOT NULL
);

-- The stream. Appended to, pruned by age, never changed. `parent` links an event to the one that led to it, so that a
-- job's story is read backwards from its latest event without an index that every event would pay for.
CREATE TABLE event (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    type_id     INTEGER NOT NULL,
    source_id   INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    job_id      INTEGER,
    lane_id     INTEGER,
    parent      INTEGER,
    attempt     INTEGER,
    retries     INTEGER,
    max_retries INTEGER,
    latency_ms  INTEGER,
    exit_code   INTEGER,
    importance  INTEGER,                       -- absent: 3
    hypothesis  TEXT,
    caller_id   TEXT,
    tags        TEXT,                          -- a JSON array of texts; absent when there are none
    imported_at INTEGER,                       -- when it came from elsewhere; it is kept from then on
    detail      TEXT                           -- the rest, as JSON, sealed where there is a key; absent when the columns say it all
);
CREATE INDEX event_caller ON event (caller_id, seq) WHERE caller_id IS NOT NULL;
CREATE INDEX event_hypothesis ON event (hypothesis, seq) WHERE hypothesis IS NOT NULL;
-- 3 failed, 4 retrying, 5 dead_letter: what people look for.
CREATE INDEX event_trouble ON event (status, seq) WHERE status >= 3;
-- What was told about a job from beside its story; the story itself has its lane, and pays nothing for this.
CREATE INDEX event_beside ON event (job_id, seq) WHERE job_id IS NOT NULL AND lane_id IS NULL;

-- Events that came from elsewhere, by the id they came with.
CREATE TABLE event_alias (
    event_id TEXT PRIMARY KEY,
    seq      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX event_alias_seq ON event_alias (seq);

-- Lines that could not be read by an import, kept as they were.
CREATE TABLE aside (
    id     INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    origin TEXT NOT NULL,
    line   INTEGER NOT NULL,
    why    TEXT NOT NULL,
    text   BLOB NOT NULL
);
