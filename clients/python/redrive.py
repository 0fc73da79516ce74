"""redrive over HTTP, for Python 3.9 and later, with the standard library only.

    import redrive

    client = redrive.Client("http://127.0.0.1:7411", token=None)
    client.enqueue("greet", {"name": "Ada"}, queue="mail")

    def greet(job):
        print("hello", job.payload["name"])

    redrive.Worker(client, "mail", {"greet": greet}).run()      # until SIGTERM or SIGINT

A handler that returns has succeeded. One that raises has failed, and the server decides what follows: it knows the policy. A
handler that knows better raises Retry, Snooze or Dead.
"""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import logging
import math
import queue as queues
import random
import signal
import socket
import ssl
import subprocess
import threading
import time
import traceback
import urllib.parse
import uuid

__all__ = ["Client", "Worker", "Job", "Problem", "Unreachable", "Retry", "Snooze", "Dead", "BadSignature",
           "verify_webhook"]

log = logging.getLogger("redrive")

PASSING = {429, 502, 503, 504}
FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0
# Nothing is put off for longer.
A_YEAR_MS = 366 * 24 * 3600 * 1000
# Ends that are settled together: so many, and so many bytes.
MOST_ENDS, MOST_BYTES = 500, 4 * 1024 * 1024


class Problem(Exception):
    """The server said no (application/problem+json). `code` never changes; `detail` is for people."""

    def __init__(self, status, told, retry_after=None):
        self.status, self.told, self.retry_after = status, told, retry_after
        self.code = told.get("code", "unknown")
        self.detail = told.get("detail") or told.get("title") or ""
        self.field = told.get("field")
        where = f"{self.field}: " if self.field else ""
        super().__init__(f"{status} {self.code}: {where}{self.detail}")


class Unreachable(Exception):
    """No server answered, however often it was asked."""


class Retry(Exception):
    """Raised by a handler: it failed and is worth another attempt, after so many seconds if that is known."""

    def __init__(self, reason="the handler asks for another attempt", after=None):
        super().__init__(reason)
        self.after = None if after is None else _seconds(after)


class Snooze(Exception):
    """Raised by a handler: not now, but in so many seconds. No attempt is used up."""

    def __init__(self, seconds):
        super().__init__(f"again in {seconds} s")
        self.seconds = _seconds(seconds)


class Dead(Exception):
    """Raised by a handler: a person must look at it. It becomes a dead letter at once."""


class BadSignature(Exception):
    """A webhook that nobody with our secret has sent, or that is too old."""


class Client:
    """Talks to one server, or to several on one store: when one does not answer, the next is asked."""

    def __init__(self, urls, token=None, timeout=30.0, tries=8, ssl_context=None, sleep=time.sleep):
        urls = [urls] if isinstance(urls, str) else list(urls)
        self._urls = [urllib.parse.urlsplit(url.rstrip("/")) for url in urls]
        # Out of a file it has a line's end.
        self._token, self._timeout, self._tries = token.strip() if token else None, timeout, max(1, tries)
        self._ssl, self._sleep = ssl_context, sleep
        self._at = random.randrange(len(self._urls))
        self._local = threading.local()

    @property
    def servers(self):
        """How many servers it knows."""
        return len(self._urls)

    # Jobs

    def enqueue(self, kind, payload=None, queue=None, key=None, **more):
        """Adds a job and answers with its id. `more` are fields of the API: run_at, priority, unique_key, caller_id, policy, …

        The key is made once and kept over our own retries, so that the job is added once. Give one that means this very thing
        (an order's number) to be safe over restarts of your own program, too.
        """
        job = {"kind": kind, "payload": payload, **({"queue": queue} if queue else {}), **more}
        return self.request("POST", "/v1/jobs", job, key=key or str(uuid.uuid4()))["id"]

    def enqueue_many(self, jobs, key=None):
        """Adds jobs, all of them or none; each is a dict of `kind`, `payload` and more as above. Answers with their ids."""
        added = self.request("POST", "/v1/jobs", {"jobs": list(jobs)}, key=key or str(uuid.uuid4()))
        return [one["id"] for one in added["items"]]

    def job(self, job_id):
        """What is known about a job."""
        return self.request("GET", f"/v1/jobs/{urllib.parse.quote(str(job_id), safe='')}")

    # Dead letters

    def dead_letters(self, where=None, limit=100):
        """Every dead letter that the filter means, page after page."""
        asked = {"limit": limit, **({"where": where} if where else {})}
        while True:
            page = self.request("GET", "/v1/dead-letters?" + urllib.parse.urlencode(asked))
            yield from page["items"]
            if not page.get("next"):
                return
            asked["cursor"] = page["next"]

    def redrive(self, ids=None, where=None, why=None, key=None, **more):
        """Begins to put dead letters back, by their ids or by a filter; answers with the run. `more`: canary, rate, limit, …"""
        chosen = {"ids": list(ids)} if ids is not None else {"where": where}
        body = {**chosen, **({"reason": why} if why else {}), **more}
        return self.request("POST", "/v1/redrives", body, key=key or str(uuid.uuid4()))

    # Leases

    def lease(self, queue, max=1, lease=30.0, wait=0.0, kinds=None, tries=None):
        """Takes at most `max` jobs for `lease` seconds, waiting up to `wait` seconds for the first one."""
        body = {"max": max, "lease_ms": _ms(lease), "wait_ms": _ms(wait), **({"kinds": list(kinds)} if kinds else {})}
        path = f"/v1/queues/{urllib.parse.quote(queue, safe='')}/lease"
        told = self.request("POST", path, body, timeout=self._timeout + wait, tries=tries)
        return [Job(item) for item in told["items"]]

    def settle(self, ends):
        """Ends attempts; answers what became of each."""
        return self.request("POST", "/v1/leases/settle", {"items": ends})["items"]

    def extend(self, leases, timeout=None, tries=None):
        """Keeps leases for as long again as they were taken for; answers what became of each."""
        body = {"items": [{"lease": lease} for lease in leases]}
        return self.request("POST", "/v1/leases/extend", body, timeout=timeout, tries=tries)["items"]

    # The wire

    def request(self, method, path, body=None, key=None, timeout=None, tries=None):
        """One call, made again while it may help: nobody answers, or somebody says 429, 502, 503 or 504."""
        data = None if body is None else _json(body)
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if key:
            headers["Idempotency-Key"] = key
        tries, trouble = tries or self._tries, None
        for attempt in range(tries):
            wait = random.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt))
            at = self._at
            try:
                status, told, asked = self._once(method, path, data, headers, timeout or self._timeout)
                if status < 400:
                    return told
                trouble = Problem(status, told if isinstance(told, dict) else {}, asked)
                # A key whose first request is still under way will have its answer soon.
                if status not in PASSING and trouble.code != "idempotency-in-flight":
                    raise trouble
                wait = asked if asked is not None else wait
            except (OSError, http.client.HTTPException) as error:
                trouble = Unreachable(f"{self._urls[at % len(self._urls)].netloc}: {error}")
                if self._at == at:  # or another thread has found out before
                    self._at = at + 1
                # Another server is asked at once.
                wait = 0 if attempt + 1 < len(self._urls) else wait
            if attempt + 1 < tries:
                self._sleep(min(wait, 60.0))
        raise trouble

    def hang_up(self, connection):
        """Ends whatever another thread waits for on this connection."""
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass

    def connection(self, timeout=None):
        """This thread's connection."""
        url, held = self._urls[self._at % len(self._urls)], getattr(self._local, "held", None)
        if held is None or held[0] != url.netloc:
            self._drop()
            timeout = timeout or self._timeout
            if url.scheme == "https":
                made = http.client.HTTPSConnection(url.netloc, timeout=timeout, context=self._ssl or ssl.create_default_context())
            else:
                made = http.client.HTTPConnection(url.netloc, timeout=timeout)
            self._local.held = held = (url.netloc, made, url.path)
        return held

    def _once(self, method, path, data, headers, timeout):
        _, connection, prefix = self.connection(timeout)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(method, prefix + path, body=data, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            self._drop()
            raise
        if answer.will_close:
            self._drop()
        told = None
        if text:
            try:
                told = json.loads(text)
            except (ValueError, RecursionError) as error:
                if answer.status < 400:  # a proxy's page, or half an answer: nobody knows what it says
                    raise http.client.HTTPException(f"the answer cannot be read: {error}") from None
                told = {"detail": text[:200].decode("utf-8", "replace")}
        return answer.status, told, _retry_after(answer.headers.get("Retry-After"))

    def _drop(self):
        held, self._local.held = getattr(self._local, "held", None), None
        if held:
            held[1].close()


class Job:
    """A job that this worker has. `cancelled` is set when somebody wants it to end, or its lease is lost."""

    def __init__(self, item):
        self.item, self.lease, self.id = item, item["lease"], item["id"]
        self.queue, self.kind, self.attempt = item["queue"], item["kind"], item["attempt"]
        self.retries, self.hint, self.fence = item["retries"], item.get("hint"), item["fence"]
        self.idempotency_key, self.caller_id = item["idempotency_key"], item.get("caller_id")
        encoded = item.get("payload_base64")
        self.payload = base64.b64decode(encoded) if encoded is not None else item.get("payload")
        self.cancelled, self.lost, self.kept_until = threading.Event(), False, math.inf
        self.began = time.monotonic()

    def end(self, outcome, **more):
        """How this attempt ended, as the API takes it."""
        latency = _ms(time.monotonic() - self.began)
        return {"lease": self.lease, "outcome": outcome, "latency_ms": latency, **more}


class Worker:
    """Leases jobs of a queue, hands each to the handler of its kind, keeps the leases, and settles what ended.

    handlers: a dict from kind to function, each called with a Job; or one function for every kind. With `batch`, a handler gets a
    list of at most that many jobs of its kind, and answers with nothing (all are done) or with a dict from job id to the exception
    that it failed with.
    """

    def __init__(self, client, queue, handlers, concurrency=8, batch=None, lease=30.0, wait=20.0, grace=30.0):
        self._client, self._queue, self._handlers = client, queue, handlers
        self._slots, self._batch = max(1, concurrency), batch
        self._lease, self._wait, self._grace = lease, wait, grace
        self._stopping, self._over = threading.Event(), threading.Event()
        self._held, self._lock = {}, threading.Lock()
        self._work, self._ends = queues.Queue(), queues.Queue()
        self._free = threading.Semaphore(0)
        self._polling = None
        self.done = 0

    def stop(self, *_):
        """Takes nothing new; what runs may finish. Safe in a signal handler."""
        self._stopping.set()
        polling = self._polling
        if polling is not None:
            # What the server is about to hand out goes back, uncounted.
            self._client.hang_up(polling)

    def run(self, signals=True):
        """Works until stop() is called, or SIGTERM or SIGINT comes."""
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self.stop)
        hands = [threading.Thread(target=self._hand, daemon=True) for _ in range(self._slots)]
        beside = [threading.Thread(target=self._beat, daemon=True), threading.Thread(target=self._settle, daemon=True)]
        for thread in hands + beside:
            thread.start()
        try:
            self._poll()
        finally:
            self._leave(hands, beside)

    def _poll(self):
        kinds = list(self._handlers) if isinstance(self._handlers, dict) else None
        most, trouble = self._slots * (self._batch or 1), 0
        while not self._stopping.is_set():
            with self._lock:
                room = most - len(self._held)
            if room <= 0:
                self._free.acquire(timeout=1.0)
                continue
            try:
                self._polling = self._client.connection()[1]
                if self._stopping.is_set():
                    return
                jobs, trouble = self._client.lease(self._queue, min(room, 1000), self._lease, self._wait, kinds, tries=1), 0
                for job in jobs:
                    job.kept_until = time.monotonic() + self._lease
            except Exception as error:  # whatever comes back: the next answer may be a good one
                trouble += 1
                if not self._stopping.is_set():
                    log.warning("asking for work failed: %s", error)
                asked = getattr(error, "retry_after", None)
                self._stopping.wait(random.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2 ** trouble)) if asked is None else asked)
                continue
            finally:
                self._polling = None
            with self._lock:
                self._held.update((job.lease, job) for job in jobs)
            for some in self._gathered(jobs):
                self._work.put(some)
            if not jobs:
                self._stopping.wait(0.05)  # a server that leaves answers at once, with nothing

    def _gathered(self, jobs):
        if not self._batch:
            return [[job] for job in jobs]
        by_kind = {}
        for job in jobs:
            by_kind.setdefault(job.kind, []).append(job)
        return [of[at:at + self._batch] for of in by_kind.values() for at in range(0, len(of), self._batch)]

    def _hand(self):
        while True:
            jobs = self._work.get()
            if jobs is None:
                return
            for job in jobs:
                job.began = time.monotonic()
            for job, end in self._carried_out(jobs):
                sent = _sent(job, end)
                _tell(job, sent[1])
                self._ends.put(sent)

    def _carried_out(self, jobs):
        if self._stopping.is_set() and self._over.is_set():
            return [(job, job.end("released", reason="its worker leaves")) for job in jobs]
        try:
            handler = self._handlers[jobs[0].kind] if isinstance(self._handlers, dict) else self._handlers
            answer = handler(jobs if self._batch else jobs[0])
            if not self._batch:
                return [(jobs[0], jobs[0].end("succeeded", **({"output": answer} if answer is not None else {})))]
            if answer is not None and not hasattr(answer, "items"):
                raise TypeError(f"the handler of a batch answers with nothing or with a dict, not with {type(answer).__name__}")
            failures = {str(job_id): error for job_id, error in (answer or {}).items() if error is not None}
            unknown = sorted(set(failures) - {job.id for job in jobs})
            if unknown:
                raise ValueError(f"the handler answered for {unknown[0]}, which is not in the batch")
        except BaseException as error:  # whatever a handler raises is data, also an exit
            return [(job, _failed(job, error)) for job in jobs]
        return [(job, _failed(job, failures[job.id]) if job.id in failures else job.end("succeeded")) for job in jobs]

    def _settle(self):
        while True:
            end, ends, weight = self._ends.get(), [], 0
            while end is not None:
                ends.append(end)
                weight += len(end[2])
                if len(ends) >= MOST_ENDS or weight >= MOST_BYTES:
                    break
                try:
                    end = self._ends.get_nowait()
                except queues.Empty:
                    break
            try:
                self._send([end for end in ends if not end[0].lost])
            except Exception as error:  # the others must not wait for it
                log.exception("%d jobs could not be settled; their leases lapse, and they come again: %s", len(ends), error)
            with self._lock:
                for job, *_ in ends:
                    self._held.pop(job.lease, None)
            self.done += len(ends)
            self._free.release()
            if end is None:
                return

    def _send(self, ends, again=True):
        if not ends:
            return
        try:
            # An end that was written down, and whose answer was lost, is answered as stale: it counts all the same.
            answers = self._client.settle([end for _, end, _ in ends])
        except (Problem, Unreachable) as error:
            if not isinstance(error, Problem) or error.status not in (400, 413, 422):
                log.error("%d jobs could not be settled; their leases lapse, and they come again: %s", len(ends), error)
            elif len(ends) > 1:
                self._send(ends[:len(ends) // 2])
                self._send(ends[len(ends) // 2:])
            else:
                self._refused(ends[0][0], error.detail, again)
            return
        for (job, *_), answer in zip(ends, answers):
            if answer["status"] == "refused":
                self._refused(job, answer["problem"]["detail"], again and answer["problem"]["code"] == "invalid")

    def _refused(self, job, detail, again):
        """What cannot be written down would be done again and again: a person must look."""
        log.error("the end of %s was refused: %s", job.id, detail)
        if again:
            self._send([_sent(job, job.end("dead", reason=f"its worker ended it in a way that was refused: {detail}"))], again=False)

    def _beat(self):
        # A server that hangs is given up while there is time to ask another one.
        patience = max(self._lease / 6, 0.25)
        while not self._over.wait(self._lease / 3):
            with self._lock:
                jobs = list(self._held.values())
            for at in range(0, len(jobs), MOST_ENDS):
                some = jobs[at:at + MOST_ENDS]
                began = time.monotonic()
                try:
                    for job, answer in zip(some, self._client.extend([job.lease for job in some], patience, self._client.servers + 1)):
                        if answer["status"] == "extended":
                            job.kept_until = began + self._lease
                        elif answer["status"] in ("cancel_requested", "lost", "refused"):
                            job.lost = answer["status"] != "cancel_requested"
                            job.cancelled.set()
                except Exception as error:  # the next one may get through
                    log.warning("a heartbeat failed: %s", error)
                for job in some:
                    if time.monotonic() > job.kept_until:  # nobody answers, and somebody else may have it
                        job.cancelled.set()

    def _leave(self, hands, beside):
        self._stopping.set()
        until = time.monotonic() + self._grace
        while time.monotonic() < until:
            with self._lock:
                if not self._held:
                    break
            time.sleep(0.02)
        with self._lock:
            left = list(self._held.values())
        for job in left:
            job.cancelled.set()
            self._ends.put(_sent(job, job.end("released", reason="its worker leaves")))
        for _ in hands:
            self._work.put(None)
        self._ends.put(None)
        beside[1].join(self._grace)
        self._over.set()


def _tell(job, end):
    """Whoever reads the worker's own log sees which job failed, in one line; the rest is with the server."""
    error = end.get("error") or {}
    if end["outcome"] in ("failed", "dead"):
        why = " ".join(f"{error.get('type', 'dead')}: {error.get('message') or end.get('reason') or ''}".split())
        log.warning("%s (%s, attempt %s) failed: %s", job.id, job.kind, job.attempt, why[:500])


def _sent(job, end):
    """An end that can be sent for sure, and how it reads as JSON."""
    try:
        return job, end, _json(end)
    except BaseException as error:  # whatever was returned may say no in any way
        # It was done. Doing it again would end in the same way.
        end = job.end("dead", reason=f"the handler is done, but what it returned cannot be written as JSON: {_words(error)}")
        return job, end, _json(end)


def _failed(job, error):
    """What the server is told about an exception. It classifies; we only say what we know."""
    try:
        return _known(job, error)
    except BaseException:  # an error may have anything inside
        return job.end("failed", error={"type": type(error).__name__, "message": _words(error)})


def _known(job, error):
    if isinstance(error, Snooze):
        return job.end("snoozed", delay_ms=_ms(error.seconds))
    if isinstance(error, Dead):
        return job.end("dead", reason=_words(error) or "the handler set it aside")
    known = {"type": "Error", "message": _words(error)}
    if isinstance(error, BaseException):
        known["type"] = type(error).__name__
        stack = traceback.format_exception(type(error), error, error.__traceback__)
        known["stack"] = _well("".join(stack)[-8000:])
    if isinstance(error, Retry):
        known.update(type="RetryRequested", retryable=True, cause="api_error")
        if error.after is not None:
            known["retry_after_ms"] = min(_ms(error.after), A_YEAR_MS)
        return job.end("failed", error=known)
    # urllib's HTTPError has a code and headers; requests' and httpx's have a response with them.
    answer = getattr(error, "response", None) or error
    status = getattr(answer, "status_code", None) or getattr(answer, "status", None) or getattr(answer, "code", None)
    if isinstance(status, int) and 100 <= status <= 599:
        known["http_status"] = status
    elif isinstance(getattr(error, "code", None), str):
        known["code"] = _well(error.code[:200])
    headers = getattr(answer, "headers", None)
    after = _retry_after(headers.get("Retry-After")) if hasattr(headers, "get") else None
    if after is not None:
        # Somebody else's header: however far it is, it must not decide what becomes of the job.
        known["retry_after_ms"] = min(_ms(after), A_YEAR_MS)
    if isinstance(error, subprocess.CalledProcessError):
        # Ended by a signal, as a shell would tell it.
        known["exit_code"] = error.returncode if error.returncode >= 0 else 128 - error.returncode
    return job.end("failed", error=known)


def verify_webhook(secrets, headers, body, tolerance=300, now=None):
    """Whether a push came from somebody with one of our secrets, lately (Standard Webhooks). Answers its id, or raises.

    secrets: one `whsec_…`, or several while they are exchanged. headers: a mapping. body: the bytes as they came.
    """
    headers = {str(name).lower(): value for name, value in headers.items()}
    try:
        msg_id, sent, given = (headers["webhook-" + name] for name in ("id", "timestamp", "signature"))
        sent_at = int(sent)
    except (KeyError, ValueError):
        raise BadSignature("webhook-id, webhook-timestamp and webhook-signature are needed") from None
    if abs((time.time() if now is None else now) - sent_at) > tolerance:
        raise BadSignature("the timestamp is too far from now")
    signed = f"{msg_id}.{sent}.".encode() + (body.encode() if isinstance(body, str) else body)
    good = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        made = base64.b64encode(hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest())
        for one in given.split(" "):
            version, _, code = one.partition(",")
            # Every one is compared, in constant time.
            good |= version == "v1" and hmac.compare_digest(made, code.encode())
    if not good:
        raise BadSignature("no signature fits")
    return msg_id


def _json(value):
    """As the server reads it: no NaN, and no half of a character."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _words(error):
    """What an error says, as far as it can."""
    try:
        return _well(str(error)[:16000])
    except BaseException as trouble:
        return f"it cannot be told: its text raises {type(trouble).__name__}"


def _well(text):
    """A text that can be sent, whatever it was made from."""
    return text.encode("utf-8", "replace").decode()


def _seconds(given):
    """A number of seconds, a text that is one, or a timedelta."""
    seconds = float(given.total_seconds() if hasattr(given, "total_seconds") else given)
    if not math.isfinite(seconds):
        raise ValueError(f"{given!r} is no number of seconds")
    return seconds


def _ms(seconds):
    return max(0, round(seconds * 1000))


def _retry_after(text):
    """Seconds or a date; nothing when it is neither."""
    if not text:
        return None
    try:
        return max(0.0, _seconds(text))
    except (TypeError, ValueError):
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
