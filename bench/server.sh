#!/bin/sh
# Prints what the server does in a second beside an axum handler that does nothing, what thousands of long polls and hundreds
# who follow the events cost, and what it weighs after a million jobs. `./server.sh rates`, `postgres` (the rates on that store alone), `polls N`,
# `follow N` and `memory JOBS` print one of them.
set -eu
cd "$(dirname "$0")"
ulimit -n "$(ulimit -Hn)"
cargo build --quiet --release --manifest-path ../Cargo.toml -p redrive-cli
cargo build --quiet --release -p bench-server
REDRIVE="${REDRIVE:-$(cd .. && pwd)/${CARGO_TARGET_DIR:-target}/release/redrive}"
export REDRIVE
exec "${CARGO_TARGET_DIR:-target}/release/bench-server" "$@"
