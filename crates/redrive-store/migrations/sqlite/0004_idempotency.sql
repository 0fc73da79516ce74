-- Idempotency keys, and what a client keeps until the network is back.

-- A key is taken before its request is run, and completed with the answer. Unique over whose it is and what it is: everything else about
-- the request is in the hash.
CREATE TABLE idempotency_keys (
    id               INTEGER PRIMARY KEY,
    principal        TEXT NOT NULL,            -- whose key it is: a hash, or a word
    key              TEXT NOT NULL,
    endpoint         TEXT NOT NULL,            -- method and route, for people
    request_hash     TEXT NOT NULL,
    state            INTEGER NOT NULL,         -- 0 in progress, 1 completed, 2 unknown outcome
    incarnation      INTEGER NOT NULL,         -- who holds it, or held it last; no two holders share one
    leased_until     INTEGER,                  -- until when its holder has been heard of; in progress only
    response_status  INTEGER,
    response_headers BLOB,                     -- as JSON, sealed where there is a key
    response_body    BLOB,                     -- sealed where there is a key; absent when it was not kept
    job_id           INTEGER,                  -- the job that does it, where one does
    created_at       INTEGER NOT NULL,
    ended_at         INTEGER,                  -- answered, or given up
    expires_at       INTEGER                   -- when it is forgotten; never while in progress
);
CREATE UNIQUE INDEX idempotency_keys_whose ON idempotency_keys (principal, key);
CREATE INDEX idempotency_keys_key ON idempotency_keys (key, id);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_keys_lapse ON idempotency_keys (leased_until) WHERE state = 0;
CREATE INDEX idempotency_keys_unknown ON idempotency_keys (id) WHERE state = 2;

-- Calls that wait to be sent, in the order of their numbers within a lane.
CREATE TABLE outbox (
    id          INTEGER PRIMARY KEY,
    lane        TEXT NOT NULL,
    key         TEXT NOT NULL,
    call        TEXT NOT NULL,                 -- as JSON, sealed where there is a key
    call_hash   TEXT NOT NULL,
    state       INTEGER NOT NULL,              -- 0 pending, 1 sent, 2 failed
    sends       INTEGER NOT NULL,              -- begun ones included
    created_at  INTEGER NOT NULL,
    not_before  INTEGER NOT NULL,
    sent_at     INTEGER,
    ended_at    INTEGER,
    last        TEXT,                          -- what became of the last send; sealed where there is a key
    last_status INTEGER
);
CREATE UNIQUE INDEX outbox_key ON outbox (lane, key);
CREATE INDEX outbox_pending ON outbox (lane, id) WHERE state = 0;
CREATE INDEX outbox_failed ON outbox (id) WHERE state = 2;
CREATE INDEX outbox_over ON outbox (ended_at) WHERE state = 1;
CREATE INDEX outbox_saved ON outbox (key);

-- Who sends from a lane, and until when.
CREATE TABLE outbox_lane (
    lane       TEXT PRIMARY KEY,
    held_by    INTEGER NOT NULL,
    held_until INTEGER NOT NULL
) WITHOUT ROWID;

-- The key of a logical save, made once and kept.
CREATE TABLE saved_key (
    name       TEXT PRIMARY KEY,
    key        TEXT NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX saved_key_age ON saved_key (created_at);
