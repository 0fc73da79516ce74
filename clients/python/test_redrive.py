"""The client against a real server, whose address is in REDRIVE_URL. `cargo test -p redrive-server --test work` runs it."""

import base64
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import unittest
import urllib.request
import uuid

import redrive

URL = os.environ["REDRIVE_URL"]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

# Answers that cannot be read, or say nothing.
ODD = {"deep": b"[" * 100_000 + b"]" * 100_000, "page": b"<html>", "half": b'{"items": [', "null": b"null", "other": b'{"a": 1}'}


def queue():
    return f"py-{uuid.uuid4()}"


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and is as unreliable as its server says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == "busy":
            self.send_response(503)
            self.send_header("Retry-After", "0.01")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault in ODD:  # what stands between may answer anything
            self.send_response(200)
            self.send_header("Content-Length", str(len(ODD[fault])))
            self.end_headers()
            self.wfile.write(ODD[fault])
            return
        names = ("Content-Type", "Idempotency-Key")
        headers = {name: self.headers[name] for name in names if self.headers[name]}
        asked = urllib.request.Request(URL + self.path, body, headers)
        with urllib.request.urlopen(asked) as answer:
            text = answer.read()
        if fault == "cut":  # it was done, and nobody hears of it
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Unreliable:
    def __init__(self, faults):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
        self.server.faults, self.server.seen = faults, []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return f"http://127.0.0.1:{self.server.server_port}", self.server.seen

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def work(client, name, handlers, until, **more):
    """Runs a worker until something is true."""
    worker = redrive.Worker(client, name, handlers, wait=2.0, grace=5.0, **more)
    thread = threading.Thread(target=worker.run, kwargs={"signals": False})
    thread.start()
    for _ in range(1500):
        if until():
            break
        time.sleep(0.01)
    worker.stop()
    thread.join(20)
    assert not thread.is_alive(), "the worker did not leave"
    assert until(), "it never came true"
    return worker


class Clients(unittest.TestCase):
    def setUp(self):
        self.client, self.queue = redrive.Client(URL, sleep=lambda seconds: time.sleep(min(seconds, 0.05))), queue()

    def state(self, job_id):
        return self.client.job(job_id)["state"]

    def test_a_job_is_added_once_although_its_answer_was_lost(self):
        """R-I7: the key is made once and kept over the client's own retries."""
        with Unreliable(["cut", "busy"]) as (url, seen):
            client = redrive.Client(url, sleep=lambda _: None)
            client.enqueue("greet", {"name": "Ada"}, queue=self.queue)
            keys = {headers["Idempotency-Key"] for _, headers, _ in seen}
            self.assertEqual((len(seen), len(keys)), (3, 1))
        self.assertEqual(len(self.client.lease(self.queue, max=10)), 1)

    def test_every_way_to_end_does_what_it_says(self):
        """R-D3: what a handler raises becomes what the server does."""
        kinds = ["good", "retry", "snooze", "dead", "broken"]
        ids = dict(zip(kinds, self.client.enqueue_many([{"kind": kind, "queue": self.queue} for kind in kinds])))
        seen = []

        def handler(job):
            seen.append((job.kind, job.attempt))
            if job.kind == "retry" and job.attempt == 1:
                raise redrive.Retry("not yet", after=0.01)
            if job.kind == "snooze":
                raise redrive.Snooze(3600)
            if job.kind == "dead":
                raise redrive.Dead("a person must look")
            if job.kind == "broken":
                raise KeyError("no such thing")
            return {"ok": True}

        def over():
            # Four are over or put off, and the server knows.
            return len(seen) >= 6 and all(self.state(ids[kind]) not in ("ready", "running") for kind in kinds)

        with self.assertLogs("redrive", "WARNING") as told:
            work(self.client, self.queue, handler, over)
        self.assertIn(("retry", 2), seen)
        said = "\n".join(told.output)
        self.assertIn(f"{ids['broken']} (broken, attempt 1) failed: KeyError: 'no such thing'", said)
        self.assertIn(f"{ids['dead']} (dead, attempt 1) failed: dead: a person must look", said)
        self.assertNotIn(ids["snooze"] + " ", said, "what was put off has not failed")
        letters = {letter["id"]: letter for letter in self.client.dead_letters(where=f'queue="{self.queue}"')}
        self.assertIn(ids["dead"], letters)
        self.assertIn("a person must look", json.dumps(letters[ids["dead"]]))
        self.assertEqual(self.state(ids["snooze"]), "scheduled")

    def test_a_dead_letter_is_found_and_put_back(self):
        """R-D5: letters are listed page by page, and a redrive brings one back."""
        dead = self.client.enqueue_many([{"kind": "odd", "queue": self.queue} for _ in range(3)])

        def refuse(_):
            raise redrive.Dead("no")

        where = f'queue="{self.queue}"'
        work(self.client, self.queue, refuse, lambda: len(list(self.client.dead_letters(where, limit=2))) == 3)
        self.client.redrive(ids=dead[:1], why="it was our fault")
        done = []
        work(self.client, self.queue, lambda job: done.append(job.id), lambda: done == dead[:1])
        self.assertEqual(len(list(self.client.dead_letters(where))), 2)

    def test_a_batch_fails_item_by_item(self):
        """R-D3: what a batch handler names has failed, the rest is done."""
        ids = self.client.enqueue_many([{"kind": "index", "payload": n, "queue": self.queue} for n in range(5)])
        seen = []

        def index(jobs):
            seen.extend((job.payload, job.attempt) for job in jobs)
            return {job.id: redrive.Retry("busy", after=0) for job in jobs if job.payload == 3 and job.attempt == 1}

        work(self.client, self.queue, {"index": index}, lambda: (3, 2) in seen, batch=10)
        self.assertEqual(sorted(seen), [(0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (4, 1)])
        self.assertEqual(len(ids), 5)

    def test_no_handler_ends_its_worker(self):
        """R-P3, R-D3: whatever a handler raises or returns becomes an end, and the jobs beside it have theirs."""
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        class Far(Exception):
            status, headers = 503, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}

        class Odd(Exception):
            @property
            def response(self):
                raise SystemExit(3)

        def raises(error):
            def handler(_):
                raise error
            return handler

        loop = []
        loop.append(loop)
        handlers = {
            "exit": raises(SystemExit(1)), "interrupt": raises(KeyboardInterrupt()), "closed": raises(GeneratorExit()),
            "mute": raises(Mute()), "odd": raises(Odd("odd")), "date": raises(Far("far away")), "half": raises(ValueError("half a sign: \ud800")),
            "text": lambda job: redrive.Retry("soon", after="x"),
            "signal": raises(subprocess.CalledProcessError(-9, "x")),
            "object": lambda job: object(), "nan": lambda job: float("nan"), "loop": lambda job: loop,
            "half-output": lambda job: "\udfff", "huge": lambda job: "x" * (9 << 20), "good": lambda job: {"ok": True},
            "later": raises(redrive.Retry("soon", after="3600")), "far": raises(redrive.Retry("never", after=10 ** 12)),
        }
        ids = dict(zip(handlers, self.client.enqueue_many(
            [{"kind": kind, "queue": self.queue, "overrides": {"max_retries": 0}} for kind in handlers])))

        def over():
            return all(self.state(job_id) in ("dead", "succeeded", "retrying", "scheduled") for job_id in ids.values())

        with self.assertLogs("redrive", "ERROR"):
            work(self.client, self.queue, handlers, over, concurrency=4)
        states = {kind: self.state(job_id) for kind, job_id in ids.items()}
        self.assertEqual({kind for kind, state in states.items() if state == "succeeded"}, {"good"})
        letters = {letter["kind"]: letter for letter in self.client.dead_letters(where=f'queue="{self.queue}"')}
        self.assertEqual(set(letters), set(handlers) - {"good"})
        told = {kind: json.dumps(letter, ensure_ascii=False) for kind, letter in letters.items()}
        self.assertIn("SystemExit", told["exit"])
        self.assertEqual((letters["date"]["cause"], letters["far"]["error_message"]), ("api_error", "never"))
        self.assertIn("it cannot be told", told["mute"])
        self.assertIn("half a sign: ?", told["half"])
        self.assertIn("cannot be written as JSON", told["object"])
        self.assertIn("at most 8388608 bytes", told["huge"])

    def test_a_batch_that_answers_badly_has_failed(self):
        """R-D3: an answer that is none fails every job of the batch, and the worker goes on."""
        self.client.enqueue_many([{"kind": kind, "queue": self.queue, "overrides": {"max_retries": 0}} for kind in ("list", "id", "words")])
        handlers = {"list": lambda jobs: [jobs[0].id], "id": lambda jobs: {"nobody": ValueError()},
                    "words": lambda jobs: {jobs[0].id: "only words"}}
        where = f'queue="{self.queue}"'
        work(self.client, self.queue, handlers, lambda: len(list(self.client.dead_letters(where))) == 3, batch=10)
        told = json.dumps(list(self.client.dead_letters(where)))
        for words in ("not with list", "nobody, which is not in the batch", "only words"):
            self.assertIn(words, told)

    def test_no_answer_ends_the_worker(self):
        """R-P15: an answer that cannot be read is asked for again; the worker goes on."""
        with Unreliable(list(ODD)) as (url, _):
            self.client.enqueue("good", {"n": 1}, queue=self.queue)
            seen = []
            with self.assertLogs("redrive", "WARNING") as told:
                work(redrive.Client(url), self.queue, {"good": lambda job: seen.append(job.payload)}, lambda: bool(seen))
            self.assertEqual((seen, len(told.output) >= len(ODD)), ([{"n": 1}], True))
        with Unreliable(["deep"]) as (url, _):
            self.assertTrue(redrive.Client(url).enqueue("good", queue=queue()), "the key makes it safe to ask again")

    def test_no_payload_ends_the_worker(self):
        """Issue 8, limits: a payload that nests without end takes neither its worker nor the jobs beside it along."""
        deep = b"[" * 5_000 + b"]" * 5_000
        jobs = [{"kind": "any", "queue": self.queue, "payload": n} for n in range(3)]
        jobs.append({"kind": "any", "queue": self.queue, "payload_base64": base64.b64encode(deep).decode()})
        ids, seen = self.client.enqueue_many(jobs), []
        worker = work(self.client, self.queue, {"any": lambda job: seen.append(job.payload)}, lambda: len(seen) >= 4)
        self.assertEqual((len(ids), worker.done), (4, 4))
        self.assertIn(deep, seen)

    def test_a_long_job_keeps_its_lease(self):
        """R-D2: the heartbeat keeps what takes longer than its lease."""
        self.client.enqueue("slow", queue=self.queue)
        seen = []

        def slow(job):
            time.sleep(2.0)
            seen.append((job.attempt, job.cancelled.is_set()))

        work(self.client, self.queue, {"slow": slow}, lambda: bool(seen), lease=0.6)
        self.assertEqual(seen, [(1, False)])
        self.assertEqual(self.client.lease(self.queue, max=1), [])

    def test_a_server_that_hangs_costs_no_lease(self):
        """R-D2: a heartbeat that gets no answer asks the next server before the lease is over."""
        with socket.create_server(("127.0.0.1", 0)) as frozen:
            client = redrive.Client([URL, f"http://127.0.0.1:{frozen.getsockname()[1]}"])
            client._at = 0
            self.client.enqueue("slow", queue=self.queue)
            seen = []

            def slow(job):
                client._at = 1  # as if the first one had been lost meanwhile
                time.sleep(5.0)
                seen.append((job.attempt, job.cancelled.is_set()))

            work(client, self.queue, {"slow": slow}, lambda: bool(seen), lease=3.0)
            self.assertEqual(seen, [(1, False)])
            self.assertEqual(self.client.lease(self.queue, max=1), [])
            # And when nobody answers at all, the handler hears of it in time.
            self.client.enqueue("slow", queue=self.queue)
            seen.clear()

            def alone(job):
                client._urls = [client._urls[1]]
                seen.append(job.cancelled.wait(10))

            client._at = 0
            with self.assertLogs("redrive", "WARNING"):
                work(client, self.queue, {"slow": alone}, lambda: bool(seen), lease=1.0)
            self.assertEqual(seen, [True])

    def test_stopping_takes_nothing_along(self):
        """R-D2: a worker that leaves in the middle of a long poll leaves the work to others, uncounted."""
        worker = redrive.Worker(self.client, self.queue, lambda job: None, wait=20.0)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        time.sleep(0.3)
        began = time.monotonic()
        worker.stop()
        thread.join(10)
        self.assertLess(time.monotonic() - began, 5)
        self.client.enqueue("greet", queue=self.queue)
        jobs = self.client.lease(self.queue, max=1, wait=5)
        self.assertEqual([job.attempt for job in jobs], [1])

    def test_a_problem_is_an_error_with_a_code(self):
        """What the server refuses is a typed error."""
        with self.assertRaises(redrive.Problem) as caught:
            self.client.lease(self.queue, max=0)
        self.assertEqual((caught.exception.status, caught.exception.code), (400, "invalid"))
        with self.assertRaises(redrive.Problem) as caught:
            self.client.enqueue("greet", queue=self.queue, priority="high")
        self.assertEqual(caught.exception.field, "priority")
        self.assertIn("400 invalid: priority: ", str(caught.exception))
        nobody = redrive.Client("http://127.0.0.1:9", tries=2, sleep=lambda _: None)
        with self.assertRaises(redrive.Unreachable):
            nobody.enqueue("greet")
        both = redrive.Client(["http://127.0.0.1:9", URL], tries=3, sleep=lambda _: None)
        self.assertTrue(both.enqueue("greet", queue=self.queue), "another server is asked")

    def test_signatures(self):
        """Reliability, Security: the standard's example holds; a changed body, an old time and another secret do not."""
        sent = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
                "Webhook-Signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
        body, now = b'{"test": 2432232314}', 1614265330
        other = "whsec_" + "A" * 32
        self.assertEqual(redrive.verify_webhook([other, SECRET], sent, body, now=now), sent["webhook-id"])
        for secrets, headers, text, at in [
            (SECRET, sent, body + b" ", now),
            (SECRET, sent, body, now + 301),
            (SECRET, sent, body, now - 301),
            (other, sent, body, now),
            (SECRET, {**sent, "Webhook-Signature": "v2,x"}, body, now),
            (SECRET, {}, body, now),
        ]:
            with self.assertRaises(redrive.BadSignature):
                redrive.verify_webhook(secrets, headers, text, now=at)


if __name__ == "__main__":
    unittest.main()
