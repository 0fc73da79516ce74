#!/bin/sh
# Prints what the idempotency layer costs beside the same handler without it, on both stores. `./idempotency.sh sweep [ROWS]` fills
# a store with expired keys and shows what requests feel while they are swept.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release -p bench-idempotency
exec "${CARGO_TARGET_DIR:-target}/release/bench-idempotency" "$@"
