#!/bin/sh
# Prints what the embedded store and the engine reach, beside the disk's own rate and bare SQLite, in one run.
# `./engine.sh 10` measures each row for ten seconds; `./engine.sh flat` shows that a job's cost does not grow with what
# waits and what lies behind (some minutes, some gigabytes).
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release -p bench-engine
exec "${CARGO_TARGET_DIR:-target}/release/bench-engine" "$@"
