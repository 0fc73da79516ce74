#!/bin/sh
# Prints what a retry costs: nanoseconds, instructions per call (callgrind, the difference of two lengths), and
# allocations from a typed signal to a decision. Needs valgrind for the second table and says so without it.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --release -p bench-retry
binary="${CARGO_TARGET_DIR:-target}/release/bench-retry"

"$binary"
echo
"$binary" allocations
echo

if ! command -v valgrind >/dev/null; then
    echo "valgrind is not installed: no instruction counts" >&2
    exit 0
fi
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
printf '%-50s %12s\n' 'instructions per call' ''
"$binary" cases | while read -r case; do
    few=$(instructions "$case" 1000)
    many=$(instructions "$case" 3000)
    printf '%-50s %12s\n' "$case" "$(((many - few) / 2000))"
done
