#!/bin/sh
# Prints what a subtask costs, by the shape of its task and by how many there are: handlers that do nothing, and `true` as
# a command. `./tasks.sh random 10000 8` measures one row: a shape (random, chain, apart, commands), subtasks, how many run
# at a time.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release -p bench-tasks
exec "${CARGO_TARGET_DIR:-target}/release/bench-tasks" "$@"
