#!/bin/sh
# Copies a report to a mirror that is down until somebody puts a file there. The guide to dead letters plays with it.
if [ -z "$1" ]; then
    echo "ValueError: the name of the report must not be empty" >&2
    exit 1
fi
if [ ! -e "${XDG_DATA_HOME:-$HOME/.local/share}/redrive/mirror-is-up" ]; then
    echo "connect to mirror-$1.example.net:443: connection refused" >&2
    exit 1
fi
echo "copied report $1"
