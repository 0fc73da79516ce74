-- Apart from the list of all: with a choice between both, every run that is over would be looked at.
SELECT id, created_at, wanted_by, plan, progress, state, why, version, held_until, ended_at, moved, skipped
FROM redrive.redrive_run WHERE state = 0 ORDER BY id DESC LIMIT $1
