/**
 * redrive over HTTP, for Node 18 and later, Deno and Bun: `fetch` and nothing else.
 *
 *     const client = new Client("http://127.0.0.1:7411");
 *     await client.enqueue("greet", { name: "Ada" }, { queue: "mail" });
 *
 *     const worker = new Worker(client, "mail", { greet: async (job: Job) => console.log("hello", job.payload) });
 *     process.on("SIGTERM", () => worker.stop());
 *     await worker.run();
 *
 * A handler that returns has succeeded. One that throws has failed, and the server decides what follows: it knows the policy. A
 * handler that knows better throws Retry, Snooze or Dead.
 */

const PASSING = new Set([429, 502, 503, 504]);
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
/** Nothing is put off for longer. */
const A_YEAR_MS = 366 * 24 * 3600 * 1000;
/** Ends that are settled together: so many, and so many characters. */
const MOST_ENDS = 500;
const MOST_LENGTH = 2 * 1024 * 1024;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The server said no (application/problem+json). `code` never changes; `detail` is for people. */
export class Problem extends Error {
  readonly code: string;
  readonly detail: string;
  readonly field: string | undefined;

  constructor(readonly status: number, readonly told: Record<string, unknown>, readonly retryAfterMs?: number) {
    const code = typeof told["code"] === "string" ? told["code"] : "unknown";
    const detail = String(told["detail"] ?? told["title"] ?? "");
    const field = typeof told["field"] === "string" ? told["field"] : undefined;
    super(`${status} ${code}: ${field ? `${field}: ` : ""}${detail}`);
    this.name = "Problem";
    this.code = code;
    this.detail = detail;
    this.field = field;
  }
}

/** No server answered, however often it was asked. */
export class Unreachable extends Error { override name = "Unreachable"; }

/** Thrown by a handler: it failed and is worth another attempt, after so long if that is known. */
export class Retry extends Error {
  override name = "Retry";
  constructor(reason = "the handler asks for another attempt", readonly afterMs?: number) {
    super(reason);
  }
}

/** Thrown by a handler: not now, but in so long. No attempt is used up. */
export class Snooze extends Error {
  override name = "Snooze";
  constructor(readonly delayMs: number) {
    super(`again in ${delayMs} ms`);
  }
}

/** Thrown by a handler: a person must look at it. It becomes a dead letter at once. */
export class Dead extends Error { override name = "Dead"; }

/** A webhook that nobody with our secret has sent, or that is too old. */
export class BadSignature extends Error { override name = "BadSignature"; }

/** A job to be added, with what else the API knows: run_at, priority, unique_key, caller_id, policy, … */
export interface NewJob {
  kind: string;
  payload?: Json;
  queue?: string;
  [field: string]: Json | undefined;
}

/** A job that was handed out. */
export interface LeasedJob {
  lease: string;
  id: string; queue: string; kind: string;
  payload?: Json; payload_base64?: string;
  attempt: number; retries: number;
  hint?: string;
  idempotency_key: string;
  caller_id?: string;
  fence: number;
  enqueued_at: string;
  expires_at: string;
  deadline_at?: string;
  timeout_ms?: number;
}

/** The end of one attempt. */
export interface End {
  lease: string;
  outcome: "succeeded" | "failed" | "snoozed" | "cancelled" | "dead" | "released";
  error?: Record<string, Json>;
  delay_ms?: number;
  output?: Json;
  latency_ms?: number;
  reason?: string;
}

/** What became of an end or a lease. */
export interface Answer {
  status: string;
  decision?: { decision: string; run_at?: string; delay_ms?: number; letter?: string; reason?: string; why?: string };
  expires_at?: string;
  problem?: { code: string; detail: string };
}

/** A job that this worker has. `signal` fires when somebody wants it to end, or its lease is lost. */
export interface Job extends LeasedJob { signal: AbortSignal }

export type Handler = (job: Job) => Promise<Json | void> | Json | void;
/** Gets some jobs of one kind; answers with nothing (all are done) or with the errors of those that failed, by job id. */
export type BatchHandler = (jobs: Job[]) => Promise<Record<string, unknown> | void>;

export interface ClientOptions { token?: string; timeoutMs?: number; tries?: number }
interface CallOptions { key?: string; timeoutMs?: number; tries?: number; signal?: AbortSignal }

/** Talks to one server, or to several on one store: when one does not answer, the next is asked. */
export class Client {
  private readonly urls: string[];
  private at = 0;

  constructor(urls: string | string[], private readonly options: ClientOptions = {}) {
    this.urls = (typeof urls === "string" ? [urls] : urls).map((url) => url.replace(/\/+$/, ""));
    if (this.urls.length === 0) throw new TypeError("at least one address is needed");
    this.at = Math.floor(Math.random() * this.urls.length);
  }

  /**
   * Adds a job and answers with its id. The key is made once and kept over our own retries, so that the job is added once. Give one
   * that means this very thing (an order's number) to be safe over restarts of your own program, too.
   */
  async enqueue(kind: string, payload: Json = null, more: Partial<NewJob> & { key?: string } = {}): Promise<string> {
    const { key, ...fields } = more;
    const job = { kind, payload, ...fields };
    const added = await this.call<{ id: string }>("POST", "/v1/jobs", job, { key: key ?? crypto.randomUUID() });
    return added.id;
  }

  /** Adds jobs, all of them or none, and answers with their ids. */
  async enqueueMany(jobs: NewJob[], key: string = crypto.randomUUID()): Promise<string[]> {
    const body = { jobs: jobs.map((job) => ({ payload: null, ...job })) };
    const added = await this.call<{ items: { id: string }[] }>("POST", "/v1/jobs", body, { key });
    return added.items.map((one) => one.id);
  }

  /** What is known about a job. */
  async job(id: string): Promise<Record<string, Json>> {
    return this.call("GET", `/v1/jobs/${encodeURIComponent(id)}`);
  }

  /** Every dead letter that the filter means, page after page. */
  async *deadLetters(where?: string, limit = 100): AsyncGenerator<Record<string, Json>> {
    const asked = new URLSearchParams({ limit: String(limit), ...(where ? { where } : {}) });
    for (;;) {
      const page = await this.call<{ items: Record<string, Json>[]; next?: string }>("GET", `/v1/dead-letters?${asked}`);
      yield* page.items;
      if (!page.next) return;
      asked.set("cursor", page.next);
    }
  }

  /** Begins to put dead letters back, by their ids or by a filter; answers with the run. */
  async redrive(
    wish: { ids?: string[]; where?: string; reason?: string; canary?: boolean; rate?: string; limit?: number },
    key: string = crypto.randomUUID(),
  ): Promise<Record<string, Json>> {
    return this.call("POST", "/v1/redrives", wish, { key });
  }

  /** Takes jobs, waiting for the first one if asked to. */
  async lease(
    queue: string,
    asked: { max?: number; leaseMs?: number; waitMs?: number; kinds?: string[] } = {},
    options: CallOptions = {},
  ): Promise<LeasedJob[]> {
    const { max = 1, leaseMs = 30_000, waitMs = 0, kinds } = asked;
    const body = { max, lease_ms: leaseMs, wait_ms: waitMs, ...(kinds ? { kinds } : {}) };
    const timeoutMs = (this.options.timeoutMs ?? 30_000) + waitMs;
    const path = `/v1/queues/${encodeURIComponent(queue)}/lease`;
    return (await this.call<{ items: LeasedJob[] }>("POST", path, body, { timeoutMs, ...options })).items;
  }

  /** Ends attempts; answers what became of each. */
  async settle(ends: End[]): Promise<Answer[]> {
    return (await this.call<{ items: Answer[] }>("POST", "/v1/leases/settle", { items: ends })).items;
  }

  /** Keeps leases for as long again as they were taken for; answers what became of each. */
  async extend(leases: string[], options: CallOptions = {}): Promise<Answer[]> {
    const items = leases.map((lease) => ({ lease }));
    return (await this.call<{ items: Answer[] }>("POST", "/v1/leases/extend", { items }, options)).items;
  }

  /** How many servers it knows. */
  get servers(): number {
    return this.urls.length;
  }

  /** One call, made again while it may help: nobody answers, or somebody says 429, 502, 503 or 504. */
  async call<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    const tries = options.tries ?? this.options.tries ?? 8;
    const headers: Record<string, string> = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    // Out of a file it has a line's end.
    if (this.options.token) headers["Authorization"] = `Bearer ${this.options.token.trim()}`;
    if (options.key) headers["Idempotency-Key"] = options.key;
    const text = body === undefined ? null : JSON.stringify(body);
    let trouble: Error = new Unreachable("nobody was asked");
    for (let attempt = 0; attempt < tries; attempt++) {
      let wait = Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
      const place = this.at;
      const url = this.urls[place % this.urls.length]!;
      const limit = new Limit(options.timeoutMs ?? this.options.timeoutMs ?? 30_000, options.signal);
      try {
        const answer = await fetch(url + path, { method, headers, body: text, signal: limit.signal });
        const said = await answer.text();
        if (answer.ok) return (said ? JSON.parse(said) : undefined) as T;
        const asked = retryAfter(answer.headers.get("Retry-After"));
        const problem = (trouble = new Problem(answer.status, told(said), asked));
        if (!PASSING.has(answer.status) && problem.code !== "idempotency-in-flight") throw trouble;
        wait = asked ?? wait;
      } catch (error) {
        if (error === trouble || options.signal?.aborted) throw error;
        trouble = new Unreachable(`${url}: ${words(error)}`);
        // Unless another call has found out before.
        if (this.at === place) this.at += 1;
        // Another server is asked at once.
        if (attempt + 1 < this.urls.length) wait = 0;
      } finally {
        limit.over();
      }
      if (attempt + 1 < tries) await sleep(Math.min(wait, 60_000), options.signal);
    }
    throw trouble;
  }
}

export interface WorkerOptions {
  concurrency?: number;
  /** At most so many jobs for each call of a handler, which then gets a list. */
  batch?: number;
  leaseMs?: number;
  waitMs?: number;
  graceMs?: number;
  /** Where trouble is told; console.warn unless something else is given. */
  log?: (message: string) => void;
}

interface Held { job: Job; abort: AbortController; began: number; lost: boolean; keptUntil: number }
interface Over { held: Held; end: End; length: number }

/** Leases jobs of a queue, hands each to the handler of its kind, keeps the leases, and settles what ended. */
export class Worker {
  private readonly held = new Map<string, Held>();
  private readonly leaving = new AbortController();
  private ends: Over[] = [];
  private settling: Promise<void> | undefined;
  private freed: () => void = () => undefined;
  done = 0;

  constructor(
    private readonly client: Client,
    private readonly queue: string,
    private readonly handlers: Record<string, Handler> | Record<string, BatchHandler>,
    private readonly options: WorkerOptions = {},
  ) {}

  /** Takes nothing new; what runs may finish. What the server is about to hand out goes back, uncounted. */
  stop(): void {
    this.leaving.abort();
  }

  /** Works until stop() is called. */
  async run(): Promise<void> {
    const leaseMs = this.options.leaseMs ?? 30_000;
    const beat = setInterval(() => void this.beat(leaseMs), leaseMs / 3);
    try {
      await this.poll(leaseMs);
      const until = Date.now() + (this.options.graceMs ?? 30_000);
      while (this.held.size > 0 && Date.now() < until) await this.room(Math.min(1_000, until - Date.now()));
      for (const held of this.held.values()) {
        held.abort.abort();
        this.over(held, { lease: held.job.lease, outcome: "released", reason: "its worker leaves" });
      }
      while (this.settling) await this.settling;
    } finally {
      clearInterval(beat);
    }
  }

  private async poll(leaseMs: number): Promise<void> {
    const kinds = Object.keys(this.handlers);
    const most = (this.options.concurrency ?? 8) * (this.options.batch ?? 1);
    const signal = this.leaving.signal;
    for (let trouble = 0; !signal.aborted; ) {
      const room = most - this.held.size;
      if (room <= 0) {
        await this.room(1_000, signal);
        continue;
      }
      try {
        const asked = { max: Math.min(room, 1_000), leaseMs, waitMs: this.options.waitMs ?? 20_000, kinds };
        const jobs = await this.client.lease(this.queue, asked, { tries: 1, signal });
        trouble = 0;
        this.start(jobs, leaseMs);
        // A server that leaves answers at once, with nothing.
        if (jobs.length === 0) await sleep(50, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.log(`asking for work failed: ${words(error)}`);
        const asked = error instanceof Problem ? error.retryAfterMs : undefined;
        await sleep(asked ?? Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** ++trouble), signal);
      }
    }
  }

  /** Waits until something was settled, or so long. */
  private async room(ms: number, signal?: AbortSignal): Promise<void> {
    const limit = new Limit(ms, signal);
    this.freed = () => limit.over();
    await new Promise<void>((resolve) => (limit.ended = resolve));
  }

  private start(jobs: LeasedJob[], leaseMs: number): void {
    const keptUntil = performance.now() + leaseMs;
    const byKind = new Map<string, Held[]>();
    for (const leased of jobs) {
      const abort = new AbortController();
      const held: Held = { job: { ...leased, signal: abort.signal }, abort, began: Date.now(), lost: false, keptUntil };
      this.held.set(leased.lease, held);
      const of = byKind.get(leased.kind) ?? [];
      of.push(held);
      byKind.set(leased.kind, of);
    }
    const size = this.options.batch ?? 1;
    for (const of of byKind.values()) {
      for (let at = 0; at < of.length; at += size) void this.carryOut(of.slice(at, at + size));
    }
  }

  private async carryOut(some: Held[]): Promise<void> {
    const first = some[0]!;
    try {
      if (this.options.batch === undefined) {
        const output = (await (this.handlers[first.job.kind] as Handler)(first.job)) as Json | undefined;
        this.over(first, { lease: first.job.lease, outcome: "succeeded", ...(output === undefined ? {} : { output }) });
        return;
      }
      const answer = await (this.handlers[first.job.kind] as BatchHandler)(some.map((held) => held.job));
      // Said in full, for compilers that are not strict.
      const failures = (answer as Record<string, unknown> | undefined) ?? {};
      const unknown = Object.keys(failures).find((id) => !some.some((held) => held.job.id === id));
      if (unknown) throw new Error(`the handler answered for ${unknown}, which is not in the batch`);
      for (const held of some) {
        const lease = held.job.lease;
        const failed = held.job.id in failures;
        this.over(held, failed ? failure(lease, failures[held.job.id]) : { lease, outcome: "succeeded" });
      }
    } catch (error) {
      for (const held of some) this.over(held, failure(held.job.lease, error));
    }
  }

  /** An attempt is over. Ends that come together are settled together. */
  private over(held: Held, end: End): void {
    if (!this.held.has(held.job.lease)) return;
    const over = sendable(held, { ...end, latency_ms: Date.now() - held.began });
    this.tell(held.job, over.end);
    this.ends.push(over);
    this.settling ??= Promise.resolve().then(() => this.settle());
  }

  private async settle(): Promise<void> {
    while (this.ends.length > 0) {
      let many = 0;
      for (let length = 0; many < Math.min(MOST_ENDS, this.ends.length) && length < MOST_LENGTH; many++) length += this.ends[many]!.length;
      const some = this.ends.splice(0, many);
      try {
        await this.send(some.filter(({ held }) => !held.lost));
      } catch (error) {
        this.log(`${some.length} jobs could not be settled; their leases lapse, and they come again: ${words(error)}`);
      }
      for (const { held } of some) this.held.delete(held.job.lease);
      this.done += some.length;
      this.freed();
    }
    this.settling = undefined;
  }

  private async send(some: Over[], again = true): Promise<void> {
    if (some.length === 0) return;
    let answers: Answer[];
    try {
      // An end that was written down, and whose answer was lost, is answered as stale: it counts all the same.
      answers = await this.client.settle(some.map(({ end }) => end));
    } catch (error) {
      if (!(error instanceof Problem) || ![400, 413, 422].includes(error.status)) throw error;
      if (some.length === 1) return this.refused(some[0]!.held, error.detail, again);
      const middle = Math.ceil(some.length / 2);
      await this.send(some.slice(0, middle));
      return this.send(some.slice(middle));
    }
    for (const [at, { status, problem }] of answers.entries()) {
      if (status === "refused") await this.refused(some[at]!.held, problem?.detail ?? "", again && problem?.code === "invalid");
    }
  }

  /** What cannot be written down would be done again and again: a person must look. */
  private async refused(held: Held, detail: string, again: boolean): Promise<void> {
    this.log(`the end of ${held.job.id} was refused: ${detail}`);
    const reason = `its worker ended it in a way that was refused: ${detail}`;
    if (again) await this.send([sendable(held, { lease: held.job.lease, outcome: "dead", reason })], false);
  }

  private async beat(leaseMs: number): Promise<void> {
    // A server that hangs is given up while there is time to ask another one.
    const patience = { timeoutMs: Math.max(leaseMs / 6, 250), tries: this.client.servers + 1 };
    const all = [...this.held.values()];
    for (let at = 0; at < all.length; at += MOST_ENDS) {
      const some = all.slice(at, at + MOST_ENDS);
      const began = performance.now();
      try {
        const answers = await this.client.extend(some.map((held) => held.job.lease), patience);
        answers.forEach((answer, place) => {
          const held = some[place]!;
          if (answer.status === "extended") {
            held.keptUntil = began + leaseMs;
            return;
          }
          held.lost = answer.status !== "cancel_requested";
          held.abort.abort();
        });
      } catch (error) {
        this.log(`a heartbeat failed: ${words(error)}`);
      }
      // Nobody answers, and somebody else may have it.
      for (const held of some) if (performance.now() > held.keptUntil) held.abort.abort();
    }
  }

  /** Whoever reads the worker's own log sees which job failed, in one line; the rest is with the server. */
  private tell(job: Job, { outcome, error, reason }: End): void {
    if (outcome !== "failed" && outcome !== "dead") return;
    const why = `${error?.["type"] ?? "dead"}: ${error?.["message"] ?? reason ?? ""}`.replace(/\s+/g, " ").slice(0, 500);
    this.log(`${job.id} (${job.kind}, attempt ${job.attempt}) failed: ${why}`);
  }

  private log(message: string): void {
    (this.options.log ?? console.warn)(`redrive: ${message}`);
  }
}

/** An end that can be sent for sure, and how long it is as JSON. */
function sendable(held: Held, end: End): Over {
  try {
    const text = JSON.stringify(end, (_, value: unknown) => (typeof value === "string" ? well(value) : value));
    return { held, end: JSON.parse(text) as End, length: text.length };
  } catch (error) {
    // It was done. Doing it again would end in the same way.
    const reason = `the handler is done, but what it returned cannot be written as JSON: ${words(error)}`;
    return { held, end: { lease: end.lease, outcome: "dead", reason }, length: reason.length };
  }
}

/** What the server is told about an error. It classifies; we only say what we know. */
function failure(lease: string, error: unknown): End {
  try {
    return known(lease, error);
  } catch {
    // An error may have anything inside.
    return { lease, outcome: "failed", error: { type: "Error", message: words(error).slice(0, 16_000) } };
  }
}

function known(lease: string, error: unknown): End {
  if (error instanceof Snooze) return { lease, outcome: "snoozed", delay_ms: ms(error.delayMs) };
  if (error instanceof Dead) return { lease, outcome: "dead", reason: error.message || "the handler set it aside" };
  const said: Record<string, Json> = { type: error instanceof Error ? String(error.name) : typeof error, message: words(error).slice(0, 16_000) };
  if (error instanceof Error && error.stack) said["stack"] = String(error.stack).slice(0, 8_000);
  if (error instanceof Retry) {
    Object.assign(said, { type: "RetryRequested", retryable: true, cause: "api_error" });
    if (error.afterMs !== undefined) said["retry_after_ms"] = Math.min(ms(error.afterMs), A_YEAR_MS);
    return { lease, outcome: "failed", error: said };
  }
  // An answer of fetch that was thrown, or an error of a client that holds one.
  const about = error as { status?: unknown; code?: unknown; headers?: unknown; response?: { status?: unknown; headers?: unknown }; cause?: { code?: unknown } } | null;
  const status = about?.response?.status ?? about?.status;
  const headers = about?.response?.headers ?? about?.headers;
  const after = headers instanceof Headers ? retryAfter(headers.get("Retry-After")) : undefined;
  // Somebody else's header: however far it is, it must not decide what becomes of the job.
  if (after !== undefined) said["retry_after_ms"] = Math.min(ms(after), A_YEAR_MS);
  if (typeof status === "number" && status >= 100 && status <= 599) said["http_status"] = status;
  const code = about?.code ?? about?.cause?.code;
  if (typeof code === "string" && code) said["code"] = code.slice(0, 200);
  return { lease, outcome: "failed", error: said };
}

/**
 * Whether a push came from somebody with one of our secrets, lately (Standard Webhooks). Answers its id, or throws BadSignature.
 * secrets: one `whsec_…`, or several while they are exchanged. body: the text as it came, before it is read as JSON.
 */
export async function verifyWebhook(
  secrets: string | string[],
  headers: Headers | Record<string, string>,
  body: string,
  { toleranceSeconds = 300, now = Date.now() / 1000 }: { toleranceSeconds?: number; now?: number } = {},
): Promise<string> {
  const given = headers instanceof Headers ? headers : new Headers(headers);
  const [id, sent, signatures] = ["id", "timestamp", "signature"].map((name) => given.get(`webhook-${name}`));
  if (!id || !sent || !signatures || !/^\d{1,15}$/.test(sent)) {
    throw new BadSignature("webhook-id, webhook-timestamp and webhook-signature are needed");
  }
  if (Math.abs(now - Number(sent)) > toleranceSeconds) throw new BadSignature("the timestamp is too far from now");
  const signed = new TextEncoder().encode(`${id}.${sent}.${body}`);
  let good = false;
  for (const secret of typeof secrets === "string" ? [secrets] : secrets) {
    const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const one of signatures.split(" ")) {
      const [version, code] = one.split(",", 2);
      // The platform compares in constant time, and every one is looked at.
      if (version === "v1" && code) good = (await crypto.subtle.verify("HMAC", key, bytes(code), signed)) || good;
    }
  }
  if (!good) throw new BadSignature("no signature fits");
  return id;
}

function bytes(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    throw new BadSignature("this is no base64");
  }
}

function told(text: string): Record<string, unknown> {
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read === "object" && read !== null) return read as Record<string, unknown>;
  } catch {
    // What is no JSON is told as it is.
  }
  return { detail: text.slice(0, 200) };
}

/** What an error says, as far as it can. */
function words(error: unknown): string {
  try {
    if (!(error instanceof Error)) return String(error);
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
    return `${error.message}${cause}`;
  } catch {
    return "it cannot be told: its text throws";
  }
}

/** Without halves of characters, which are no text. */
function well(text: string): string {
  return text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD");
}

function ms(given: number): number {
  const whole = Math.round(Number(given));
  if (!Number.isFinite(whole)) throw new TypeError(`${given} is no number of milliseconds`);
  return Math.max(0, whole);
}

/** Seconds or a date; nothing when it is neither. */
function retryAfter(text: string | null): number | undefined {
  if (!text) return undefined;
  const at = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(at) ? undefined : Math.max(0, at);
}

/** Something that ends in its time, or when somebody else says so. When it is over it leaves nothing behind. */
class Limit {
  private readonly abort = new AbortController();
  private readonly timer: ReturnType<typeof setTimeout>;
  private readonly told = () => this.end(this.other?.reason);
  readonly signal = this.abort.signal;
  ended: () => void = () => undefined;

  constructor(ms: number, private readonly other?: AbortSignal) {
    this.timer = setTimeout(() => this.end(new Error(`no answer within ${ms} ms`)), ms);
    if (other?.aborted) queueMicrotask(this.told);
    else other?.addEventListener("abort", this.told);
  }

  private end(reason: unknown): void {
    this.over();
    this.abort.abort(reason);
  }

  over(): void {
    clearTimeout(this.timer);
    this.other?.removeEventListener("abort", this.told);
    this.ended();
  }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const limit = new Limit(ms, signal);
  return new Promise((resolve) => (limit.ended = resolve));
}
