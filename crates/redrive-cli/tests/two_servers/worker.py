"""Works on a queue through any of the servers, and writes every effect down: job, attempt, key and what it was."""

import os
import sys
import time

sys.path.insert(0, sys.argv[1])
import redrive

urls, sink, pause = sys.argv[2].split(","), open(sys.argv[3], "a", buffering=1), float(sys.argv[4])


def effect(job):
    time.sleep(pause)
    sink.write(f"{job.id} {job.attempt} {job.idempotency_key} {job.payload['n']}\n")


client = redrive.Client(urls, timeout=5.0, tries=12)
worker = redrive.Worker(client, "orders", {"order": effect}, concurrency=16, lease=4.0, wait=5.0)
print("works", flush=True)
worker.run()
os._exit(0)
