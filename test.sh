#!/usr/bin/env bash
# Everything that CI runs, and nothing else: formatting, lints, all tests, the guides, the figures.
# One feature set for the whole workspace, so that no dependency is built twice. What this machine cannot have
# is named and skipped; with CI=true it is a failure instead.
set -euo pipefail
cd "$(dirname "$0")"

began=$SECONDS
skipped=()

say() { printf '\n== %s (after %d s)\n' "$*" "$((SECONDS - began))"; }

# skip WHAT WHY: a part that cannot run here.
skip() {
    printf '\n!! SKIPPED: %s (%s)\n' "$1" "$2" >&2
    if [[ "${CI:-}" == true ]]; then
        printf '!! with CI=true nothing is skipped\n' >&2
        exit 1
    fi
    skipped+=("$1")
}

# need COMMAND PACKAGE: what tests call, installed when it is missing and we may. A test that still misses it says so itself,
# and fails with CI=true.
need() {
    command -v "$1" >/dev/null && return
    say "installing $2 for $1"
    if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$2" >/dev/null 2>&1 ||
            { apt-get update --quiet >/dev/null 2>&1 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "$2" >/dev/null; } ||
            printf '!! %s could not be installed\n' "$2" >&2
    else
        printf '!! %s is missing: install the package %s\n' "$1" "$2" >&2
    fi
}

# The crash tests kill at chosen system calls, and cut the power of a filesystem in a file.
need strace strace
need mkfs.ext4 e2fsprogs
need losetup mount
# A clock that jumps, in real processes.
need faketime faketime
# The shells that complete, and the readers of man pages.
need zsh zsh
need fish fish
need mandoc mandoc
need man man-db
# A service of ten lines in another language, and the client that everybody has.
need python3 python3
need curl curl
# The client in TypeScript: a compiler that checks it, fetched by its own registry.
need node nodejs
need npm npm
# Slow clients and certificates, for the server.
need slowhttptest slowhttptest
need openssl openssl
# PostgreSQL, of which the tests start servers of their own; Debian keeps its programs off the path. And a pooler before it.
PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin):/usr/sbin"
need initdb postgresql
PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)"
need pgbouncer pgbouncer

# The same flags everywhere: a different set of features would build the dependencies again.
all=(--locked --workspace --all-features)

say "cargo fmt"
if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
else
    skip "formatting" "rustfmt is missing: rustup component add rustfmt"
fi

say "cargo clippy"
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --quiet "${all[@]}" --all-targets -- -D warnings
else
    skip "lints" "clippy is missing: rustup component add clippy"
fi

say "a throw-away PostgreSQL for the tests that share one"
cargo build --quiet "${all[@]}" --bin throw-away-postgres
if command -v initdb >/dev/null; then
    # It ends when this script does, however it does: it lives for as long as its standard input is open.
    coproc POSTGRES { exec "${CARGO_TARGET_DIR:-target}/debug/throw-away-postgres"; }
    read -r REDRIVE_TEST_POSTGRES <&"${POSTGRES[0]}"
    export REDRIVE_TEST_POSTGRES
else
    skip "PostgreSQL" "it could not be installed"
fi

say "cargo test: the workspace with all features, doc tests and guides included"
# The model of the lease protocol leaves its figures there.
figures="${CARGO_TARGET_DIR:-target}/tmp/lease-protocol.txt"
rm -f "$figures"
# Snapshots are compared, never written.
export INSTA_UPDATE=no
cargo test --quiet "${all[@]}" --no-run
# Most tests wait most of the time, for a process, a lease or a clock. So three programs of them run beside each other, a few from one
# start of cargo; what they printed is shown when all are through.
failed=0
printed="$(mktemp -d)"
trap 'rm -rf "$printed"' EXIT
export printed
some() {
    local log
    log="$(mktemp "$printed/XXXXXX")"
    timeout --foreground 45m cargo test --quiet --no-fail-fast --locked --workspace --all-features "$@" >"$log" 2>&1 ||
        touch "$printed/some-failed"
}
export -f some
names='import json, sys
packages = json.load(sys.stdin)["packages"]
names = {target["name"] for package in packages for target in package["targets"] if "test" in target["kind"]}
print("--lib --bins --examples", *(f"--test={name}" for name in sorted(names, reverse=True)), sep="\n")'
# Not with &: whoever is started so ignores SIGINT, and tests send it.
cargo metadata --locked --no-deps --format-version 1 | python3 -c "$names" |
    xargs --max-lines=4 --max-procs=3 bash -c 'some "$@"' some || failed=1
cat "$printed"/??????
cargo test --quiet --no-fail-fast "${all[@]}" --doc || failed=1
if ((failed)) || [[ -e "$printed/some-failed" ]]; then
    printf "\n!! some tests failed: they are named above\n" >&2
    exit 1
fi

say "the model's figures"
cat "$figures"

say "cargo test: the library alone, without a feature"
cargo test --quiet --locked --package redrive --no-default-features

# The labelled messages are not part of this repository. They may lie beside it, or be named.
corpus="${REDRIVE_CORPUS:-../shared/corpus/errors-dev.jsonl}"
say "the classifier's figures"
if [[ -f "$corpus" ]]; then
    corpus="$(cd "$(dirname "$corpus")" && pwd)/$(basename "$corpus")"
    REDRIVE_CORPUS="$corpus" cargo test --quiet "${all[@]}" --test corpus -- --nocapture
else
    # Not a failure in CI either: the file is nothing that this repository can bring.
    printf '!! SKIPPED: the figures (no %s; name one with REDRIVE_CORPUS)\n' "$corpus" >&2
    skipped+=("the classifier's figures")
fi

echo
if ((${#skipped[@]})); then
    printf 'test.sh: green in %d s, SKIPPED: %s\n' "$((SECONDS - began))" "$(IFS=','; echo "${skipped[*]}")"
else
    printf 'test.sh: all green in %d s\n' "$((SECONDS - began))"
fi
