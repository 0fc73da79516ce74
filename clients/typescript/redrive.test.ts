/** The client against a real server, whose address is in REDRIVE_URL. `cargo test -p redrive-server --test work` runs it. */

import assert from "node:assert/strict";
import test from "node:test";

import { BadSignature, Client, Dead, type Job, Problem, Retry, Snooze, Unreachable, verifyWebhook, Worker } from "./redrive.js";

const url = process.env["REDRIVE_URL"]!;
const client = new Client(url);
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const fresh = () => `ts-${crypto.randomUUID()}`;

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 1_500; turn++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail(`it never came true: ${what}`);
}

/** R-D3: what a handler throws becomes what the server does. */
test("every way to end does what it says", async () => {
  const queue = fresh();
  const kinds = ["good", "retry", "snooze", "dead"];
  const ids = await client.enqueueMany(kinds.map((kind) => ({ kind, queue, payload: { kind } })));
  const seen: [string, number][] = [];
  const handler = async (job: Job) => {
    seen.push([job.kind, job.attempt]);
    if (job.kind === "retry" && job.attempt === 1) throw new Retry("not yet", 10);
    if (job.kind === "snooze") throw new Snooze(3_600_000);
    if (job.kind === "dead") throw new Dead("a person must look");
    return { ok: true };
  };
  const handlers = Object.fromEntries(kinds.map((kind) => [kind, handler]));
  const told: string[] = [];
  const worker = new Worker(client, queue, handlers, { waitMs: 2_000, log: (line) => told.push(line) });
  const running = worker.run();
  await until("all have ended", () => worker.done >= 5);
  worker.stop();
  await running;
  assert.ok(seen.some(([kind, attempt]) => kind === "retry" && attempt === 2));
  assert.ok(told.includes(`redrive: ${ids[3]} (dead, attempt 1) failed: dead: a person must look`), told.join("\n"));
  assert.ok(!told.some((line) => line.includes(`${ids[2]} `)), "what was put off has not failed");
  const letters: string[] = [];
  for await (const letter of client.deadLetters(`queue="${queue}"`, 2)) letters.push(String(letter["id"]));
  assert.deepEqual(letters, [ids[3]]);
  const run = await client.redrive({ ids: letters, reason: "it was our fault" });
  assert.ok(run);
});

/** R-D3, R-D2: a batch fails item by item, and the heartbeat keeps what takes longer than its lease. */
test("a batch fails item by item and keeps its leases", async () => {
  const queue = fresh();
  await client.enqueueMany([0, 1, 2, 3].map((payload) => ({ kind: "index", queue, payload })));
  const seen: [unknown, number][] = [];
  const index = async (jobs: Job[]) => {
    if (seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (const job of jobs) seen.push([job.payload, job.attempt]);
    const bad = jobs.filter((job) => job.payload === 2 && job.attempt === 1);
    return Object.fromEntries(bad.map((job) => [job.id, new Retry("busy", 0)]));
  };
  const worker = new Worker(client, queue, { index }, { batch: 10, leaseMs: 600, waitMs: 2_000 });
  const running = worker.run();
  await until("the bad one came again", () => seen.some(([payload, attempt]) => payload === 2 && attempt === 2));
  worker.stop();
  await running;
  assert.deepEqual(seen.map(String).sort(), ["0,1", "1,1", "2,1", "2,2", "3,1"]);
});

/** R-P3, R-D3: whatever a handler throws or returns becomes an end, and the jobs beside it have theirs. */
test("no handler ends its worker", async () => {
  const queue = fresh();
  const loop: { self?: unknown } = {};
  loop.self = loop;
  const mute = { toString: () => { throw new Error("no words"); } };
  const throws = (thrown: unknown) => () => { throw thrown; };
  const handlers: Record<string, (job: Job) => never> = {
    mute: throws(mute), nothing: throws(undefined), half: throws(new Error("half a sign: \uD800")),
    named: throws(Object.assign(new Error("its words"), { name: 42 })),
    later: throws(new Snooze("x" as never)), far: throws(new Retry("never", 1e15)),
    loop: () => loop as never, big: () => 1n as never, huge: () => "x".repeat(9 << 20) as never,
  };
  const good = { good: () => ({ ok: true, sign: "\uDFFF" }) };
  const kinds = [...Object.keys(handlers), "good"];
  const ids = await client.enqueueMany(kinds.map((kind) => ({ kind, queue, overrides: { max_retries: 0 } })));
  const told: string[] = [];
  const options = { waitMs: 2_000, concurrency: 3, log: (message: string) => void told.push(message) };
  const worker = new Worker(client, queue, { ...handlers, ...good }, options);
  const running = worker.run();
  await until("all have ended", async () => {
    const states = await Promise.all(ids.map(async (id) => String((await client.job(id))["state"])));
    return states.every((state) => state === "dead" || state === "succeeded");
  });
  worker.stop();
  await running;
  const letters = new Map<string, string>();
  for await (const letter of client.deadLetters(`queue="${queue}"`)) letters.set(String(letter["kind"]), JSON.stringify(letter));
  assert.deepEqual([...letters.keys()].sort(), Object.keys(handlers).sort());
  assert.match(letters.get("mute")!, /it cannot be told/);
  assert.match(letters.get("half")!, /half a sign: \uFFFD/);
  assert.match(letters.get("named")!, /its words/);
  assert.match(letters.get("far")!, /never/);
  assert.match(letters.get("big")!, /cannot be written as JSON/);
  assert.match(letters.get("huge")!, /refused/);
  assert.ok(told.some((message) => message.includes("was refused")));
});

/** R-D2: a worker that leaves in the middle of a long poll leaves the work to others, uncounted. */
test("stopping takes nothing along", async () => {
  const queue = fresh();
  const worker = new Worker(client, queue, { greet: () => undefined }, { waitMs: 20_000 });
  const running = worker.run();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const began = Date.now();
  worker.stop();
  await running;
  assert.ok(Date.now() - began < 5_000);
  await client.enqueue("greet", null, { queue });
  const jobs = await client.lease(queue, { waitMs: 5_000 });
  assert.deepEqual(jobs.map((job) => job.attempt), [1]);
});

/** What the server refuses is a typed error; when one server is not there, another is asked. */
test("a problem is an error with a code", async () => {
  await assert.rejects(client.lease(fresh(), { max: 0 }), (error: unknown) => {
    assert.ok(error instanceof Problem);
    assert.deepEqual([error.status, error.code], [400, "invalid"]);
    return true;
  });
  await assert.rejects(client.enqueue("greet", null, { priority: "high" }), /^Problem: 400 invalid: priority: /);
  await assert.rejects(new Client("http://127.0.0.1:9", { tries: 2 }).enqueue("greet"), Unreachable);
  assert.ok(await new Client(["http://127.0.0.1:9", url], { tries: 3 }).enqueue("greet", null, { queue: fresh() }));
});

/** Reliability, Security: the standard's example holds; a changed body, an old time and another secret do not. */
test("signatures", async () => {
  const sent = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const [body, now, other] = ['{"test": 2432232314}', 1614265330, `whsec_${"A".repeat(32)}`] as const;
  assert.equal(await verifyWebhook([other, SECRET], sent, body, { now }), sent["webhook-id"]);
  for (const [secret, text, at] of [[SECRET, `${body} `, now], [SECRET, body, now + 301], [other, body, now]] as const) {
    await assert.rejects(verifyWebhook(secret, sent, text, { now: at }), BadSignature);
  }
  await assert.rejects(verifyWebhook(SECRET, {}, body, { now }), BadSignature);
});
