CREATE TABLE redrive.migration (
    number     bigint PRIMARY KEY,
    name       text NOT NULL,
    oldest     bigint NOT NULL,                -- the oldest schema whose binaries work beside this one
    applied_at timestamptz NOT NULL DEFAULT now()
)
