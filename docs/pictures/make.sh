#!/usr/bin/env bash
# Draws the pictures of the README anew: real commands on a throw-away store with a fixed past and a fixed clock.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo run --quiet --locked --package redrive-cli --example pictures
