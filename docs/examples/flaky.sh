#!/bin/sh
# Fails twice as a server does that is just starting, and then answers. To try: redrive run -- docs/examples/flaky.sh
if [ "${REDRIVE_ATTEMPT:-1}" -lt 3 ]; then
    echo "connect to 127.0.0.1:5432: connection refused" >&2
    exit 1
fi
echo "rows copied: 1200"
