#!/bin/sh
# Prints what an operator's commands take on a store with a million letters and ten million events, each from the start of
# its process. `./terminal.sh postgres` prints the same for PostgreSQL, in a throw-away cluster. The store is made at the first
# run (some minutes, nine gigabytes, and as much again while a redrive is measured on a copy) and kept in
# $REDRIVE_BENCH_FOLDER; REDRIVE_BENCH_LETTERS=100000 makes a smaller one.
# `make`, `check`, `look`, `export` and `redrive` do one part.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release --manifest-path ../Cargo.toml -p redrive-cli
cargo build --quiet --release -p bench-terminal
REDRIVE="${CARGO_TARGET_DIR:-$PWD/../target}/release/redrive"
export REDRIVE
exec "${CARGO_TARGET_DIR:-target}/release/bench-terminal" "$@"
