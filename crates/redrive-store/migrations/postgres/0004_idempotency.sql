-- Idempotency keys, and what a client keeps until the network is back. The twin of sqlite/0004_idempotency.sql.

-- A key is taken before its request is run, and completed with the answer. Unique over whose it is and what it is: everything else about
-- the request is in the hash.
CREATE TABLE redrive.idempotency_keys (
    id               bigint PRIMARY KEY,      -- a number of the transaction that took it, as events have them
    principal        text COLLATE "C" NOT NULL,            -- whose key it is: a hash, or a word
    key              text COLLATE "C" NOT NULL,
    endpoint         text NOT NULL,            -- method and route, for people
    request_hash     text NOT NULL,
    state            bigint NOT NULL,         -- 0 in progress, 1 completed, 2 unknown outcome
    incarnation      bigint NOT NULL,         -- who holds it, or held it last; no two holders share one
    leased_until     bigint,                  -- until when its holder has been heard of; in progress only
    response_status  bigint,
    response_headers bytea,                     -- as JSON, sealed where there is a key
    response_body    bytea,                     -- sealed where there is a key; absent when it was not kept
    job_id           bigint,                  -- the job that does it, where one does
    created_at       bigint NOT NULL,
    ended_at         bigint,                  -- answered, or given up
    expires_at       bigint                   -- when it is forgotten; never while in progress
);
CREATE UNIQUE INDEX idempotency_keys_whose ON redrive.idempotency_keys (principal, key);
CREATE INDEX idempotency_keys_key ON redrive.idempotency_keys (key, id);
CREATE INDEX idempotency_keys_expiry ON redrive.idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_keys_lapse ON redrive.idempotency_keys (leased_until) WHERE state = 0;
CREATE INDEX idempotency_keys_unknown ON redrive.idempotency_keys (id) WHERE state = 2;

-- Calls that wait to be sent, in the order of their numbers within a lane.
CREATE TABLE redrive.outbox (
    id          bigint PRIMARY KEY,           -- a number of the transaction that added it, as events have them
    lane        text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    call        text NOT NULL,                 -- as JSON, sealed where there is a key
    call_hash   text NOT NULL,
    state       bigint NOT NULL,              -- 0 pending, 1 sent, 2 failed
    sends       bigint NOT NULL,              -- begun ones included
    created_at  bigint NOT NULL,
    not_before  bigint NOT NULL,
    sent_at     bigint,
    ended_at    bigint,
    last        text,                          -- what became of the last send; sealed where there is a key
    last_status bigint
);
CREATE UNIQUE INDEX outbox_key ON redrive.outbox (lane, key);
CREATE INDEX outbox_pending ON redrive.outbox (lane, id) WHERE state = 0;
CREATE INDEX outbox_failed ON redrive.outbox (id) WHERE state = 2;
CREATE INDEX outbox_over ON redrive.outbox (ended_at) WHERE state = 1;
CREATE INDEX outbox_saved ON redrive.outbox (key);

-- Who sends from a lane, and until when.
CREATE TABLE redrive.outbox_lane (
    lane       text COLLATE "C" PRIMARY KEY,
    held_by    bigint NOT NULL,
    held_until bigint NOT NULL
);

-- The key of a logical save, made once and kept.
CREATE TABLE redrive.saved_key (
    name       text COLLATE "C" PRIMARY KEY,
    key        text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX saved_key_age ON redrive.saved_key (created_at);

-- Every key is written twice and deleted once: what is left of that is cleaned up before it slows anybody down.
ALTER TABLE redrive.idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE redrive.outbox SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
ALTER TABLE redrive.outbox_lane SET (autovacuum_vacuum_threshold = 200);
