#!/bin/sh
# Prints what a snapshot and a restore of 10,000 files and 1 GiB take, beside `cp -r` followed by `sync`, in one run.
# `./snapshot.sh 5` measures five rounds; `TMPDIR` chooses the disk (4 GiB are needed).
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release -p bench-snapshot
exec "${CARGO_TARGET_DIR:-target}/release/bench-snapshot" "$@"
