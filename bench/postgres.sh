#!/bin/sh
# Prints what redrive reaches on PostgreSQL beside its peers, in one run on a throw-away cluster that goes away with it.
# `./postgres.sh 3` measures each number for three seconds instead of five (at most 8 s with what is left to finish);
# `quick` leaves the peers out; `churn [JOBS]` shows the tables' sizes after a million jobs, which takes
# minutes; `one ROW` measures one row of redrive; `statements ROW` also shows where PostgreSQL's time went.
set -eu
cd "$(dirname "$0")/postgres"
cargo build --quiet --release
exec "${CARGO_TARGET_DIR:-target}/release/bench-postgres" "$@"
