"""Adds jobs through any of the servers, many at a time, each batch once."""

import sys

sys.path.insert(0, sys.argv[1])
import redrive

client, count = redrive.Client(sys.argv[2].split(","), timeout=5.0, tries=20), int(sys.argv[3])
for at in range(0, count, 50):
    jobs = [{"kind": "order", "queue": "orders", "payload": {"n": n}} for n in range(at, min(at + 50, count))]
    client.enqueue_many(jobs)
