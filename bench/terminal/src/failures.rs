//! What goes wrong in the made store: a few hundred sorts of failure over twelve causes, some of them very common and most
//! of them rare, each time with other ids, numbers and hosts in its words.

use redrive_policy::Rng;

/// How one sort of work fails.
pub struct Shape {
    error_type: &'static str,
    http_status: Option<u16>,
    exit_code: Option<i32>,
    words: &'static str,
}

const fn shape(error_type: &'static str, words: &'static str) -> Shape {
    Shape { error_type, http_status: None, exit_code: None, words }
}

const fn status(http_status: u16, words: &'static str) -> Shape {
    Shape { error_type: "HttpStatus", http_status: Some(http_status), exit_code: None, words }
}

const fn exit(exit_code: i32, words: &'static str) -> Shape {
    Shape { error_type: "ExitStatus", http_status: None, exit_code: Some(exit_code), words }
}

/// `{what}` is the service, `{n}` a number, `{id}` an id, `{host}` a host.
const SHAPES: &[Shape] = &[
    shape(
        "Connect",
        "connect to {what} at {host}:5432: connection refused while the {what} pool was opening connection {n} for request {id}",
    ),
    shape(
        "Timeout",
        "{what} did not answer in {n} ms: operation timed out (request {id}, host {host}, 3 bytes of headers read)",
    ),
    status(
        429,
        "429 Too Many Requests: {what} allows 600 calls a minute; you made {n}, quota of key {id} is used up",
    ),
    status(
        503,
        "503 Service Unavailable from {what} ({host}): upstream connect error or disconnect before headers, request {id}",
    ),
    status(
        500,
        "500 Internal Server Error: {what} failed with an unhandled exception, reference {id}, node {host}",
    ),
    status(
        401,
        "401 Unauthorized: the token of {what} has expired at 2026-10-{n}, issuer https://{host}/oauth",
    ),
    status(
        422,
        "422 Unprocessable Entity: field \"amount\" of {what} must be a positive number, got -{n} in record {id}",
    ),
    status(
        404,
        "404 Not Found: {what} has no record {id}; it was looked for in shard {n} of https://{host}/v2/records",
    ),
    shape(
        "Database",
        "deadlock detected: process {n} of {what} waits for ShareLock on transaction {n}; blocked by process {n}, statement {id}",
    ),
    exit(
        1,
        "write /var/spool/{what}/{id}.part: No space left on device (os error 28), {n} bytes were to be written",
    ),
    exit(
        78,
        "{what}: missing environment variable for the account of region {n}, see the configuration of {host}",
    ),
    shape("Checksum", "checksum mismatch in {what}: block {n} of object {id} is corrupted, stored on {host}"),
    shape(
        "ValueError",
        "{what} answered with something that nobody expected here: state {n}, correlation {id}, host {host}",
    ),
    shape(
        "Incomplete",
        "the answer of {what} was truncated: finish_reason=length after {n} tokens, conversation {id}",
    ),
    shape(
        "Json",
        "the {what} response is not valid JSON: expected value at line 1 column {n}, body of message {id} from {host}",
    ),
    shape(
        "Reset",
        "{what}: connection reset by peer after {n} bytes, {host} closed the stream of request {id}",
    ),
];

const SERVICES: &[&str] = &[
    "billing",
    "ledger",
    "mailer",
    "search",
    "catalogue",
    "inventory",
    "shipping",
    "identity",
    "thumbnails",
    "translation",
    "payments",
    "exports",
    "webhooks",
    "invoices",
    "reports",
    "notifications",
    "archive",
    "recommendations",
    "geocoder",
    "warehouse",
];

/// One failure of a sort.
pub struct Failing {
    pub error_type: &'static str,
    pub http_status: Option<u16>,
    pub exit_code: Option<i32>,
    pub words: String,
}

/// How many sorts there are.
pub const SORTS: usize = SHAPES.len() * SERVICES.len();

/// A sort, by a long tail: half of all failures are of one in twenty sorts.
pub fn some_sort(rng: &mut Rng) -> usize {
    let chance = rng.between(0, 1 << 20) as f64 / f64::from(1 << 20);
    let at = (SORTS as f64).powf(chance) as usize - 1;
    // Spread, so that the common ones are of different services and shapes.
    (at * 37) % SORTS
}

/// One failure of that sort, in its own words.
pub fn failing(sort: usize, rng: &mut Rng) -> Failing {
    let (shape, what) = (&SHAPES[sort % SHAPES.len()], SERVICES[sort / SHAPES.len()]);
    let mut words = String::with_capacity(200);
    for part in shape.words.split_inclusive('}') {
        let Some((before, hole)) = part.split_once('{') else {
            words.push_str(part);
            continue;
        };
        words.push_str(before);
        match hole {
            "what}" => words.push_str(what),
            "n}" => words.push_str(&rng.between(10, 99_999).to_string()),
            "id}" => words.push_str(&format!("{:016x}", rng.next_u64())),
            _ => words.push_str(&format!("{what}-{}.internal.example", rng.between(1, 40))),
        }
    }
    Failing {
        error_type: shape.error_type,
        http_status: shape.http_status,
        exit_code: shape.exit_code,
        words,
    }
}
