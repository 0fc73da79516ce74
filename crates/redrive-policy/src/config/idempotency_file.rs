//! What the sections `idempotency` and `proxy` of a configuration look like: the only place that says so, as
//! [`file`](super::file) is for the rest.

use super::file::{DURATION, NAME};
use super::shape::{Field, Shape, Table};
use crate::idempotency::Keep;

/// The most bytes of a request or an answer that a route can ask for: what a store takes at most.
pub(super) const MAX_BODY: u64 = 64 << 20;

const BODY: Shape = Shape::Size { max: MAX_BODY };
const HEADER: Shape = Shape::Form { pattern: r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", called: "header-name" };
const METHOD: Shape = Shape::Form { pattern: r"^[A-Za-z]{1,32}$", called: "http-method" };
/// Segments, any one segment as `*` or with a name in braces, and a last `**` for all the rest.
const PATH: Shape = Shape::Form {
    pattern: r"^(/\*\*|(/([^/*{}?#\s]*|\*|\{[^/*{}?#\s]+\}))+(/\*\*)?)$",
    called: "path-pattern",
};
const STATUS: Shape = Shape::Form { pattern: "^[2-5]([0-9][0-9]|xx)$", called: "status-or-hundred" };
const PRINCIPAL: Shape = Shape::Form {
    pattern: r"^(authorization|everybody|header:[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128})$",
    called: "principal",
};
const ADDRESS: Shape = Shape::Form {
    pattern: r"^(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}$",
    called: "address",
};
const URL: Shape = Shape::Form { pattern: r"^https?://[^\s/?#]+(/[^\s?#]*)?$", called: "http-url" };

const RULES: [Field; 13] = [
    Field::optional("keep_for", DURATION, "How long an answered key is known (72h)."),
    Field::optional("hold_for", DURATION, "How long whoever runs a request may be silent (30s)."),
    Field::optional("wait_for", DURATION, "How long a second request waits at most, where it waits (10s)."),
    Field::optional("key", Shape::Name(&[&["uuid", "any"]]), "What a key must look like (uuid)."),
    Field::optional("required", Shape::Bool, "A request without a key is refused (false)."),
    Field::optional(
        "in_flight",
        Shape::Name(&[&["conflict", "wait"]]),
        "What a second request gets while the first is running (conflict).",
    ),
    Field::optional("mismatch_status", Shape::Among(&[409, 422]), "For a key of another request (409)."),
    Field::optional(
        "unknown",
        Shape::Name(&[&["fail", "safe_to_rerun"]]),
        "What happens to a request whose first try ended nobody knows how (fail).",
    ),
    Field::optional("max_request", BODY, "The longest request that is guarded (1MiB)."),
    Field::optional("max_response", BODY, "The longest answer that is kept (1MiB)."),
    Field::optional("principal", PRINCIPAL, "What tells callers apart (authorization)."),
    Field::optional(
        "headers",
        Shape::List { of: &HEADER, min_len: 0 },
        "The headers of an answer that are kept; replaces the list.",
    ),
    Field::optional(
        "outcomes",
        Shape::Map { keys: &STATUS, values: &Shape::Name(&[Keep::NAMES]) },
        "What becomes of a key by the status of its answer; a status beats its hundred.",
    ),
];

/// How requests are guarded, and which.
pub(super) const IDEMPOTENCY: Table = Table {
    name: "idempotency",
    about: "Which requests are done once however often they come, and how. Without routes: every POST and PATCH.",
    fields: &with_routes(),
    rules: &[],
};

const fn with_routes() -> [Field; RULES.len() + 1] {
    const ROUTE: Field = Field::optional(
        "route",
        Shape::List { of: &Shape::Table(&A_ROUTE), min_len: 0 },
        "The requests that are guarded; the first that fits counts.",
    );
    let mut all = [ROUTE; RULES.len() + 1];
    let mut i = 0;
    while i < RULES.len() {
        all[i] = RULES[i];
        i += 1;
    }
    all
}

const A_ROUTE: Table = Table {
    name: "idempotency_route",
    about: "Requests, and how they are guarded; what it does not say, the section says.",
    fields: &with_requests(),
    rules: &[],
};

const fn with_requests() -> [Field; RULES.len() + 2] {
    const METHODS: Field = Field::optional(
        "methods",
        Shape::List { of: &METHOD, min_len: 1 },
        "Requests with these methods (POST and PATCH).",
    );
    let mut all = [METHODS; RULES.len() + 2];
    all[1] =
        Field::required("path", PATH, "Requests to these paths; * is any one segment, a last ** the rest.");
    let mut i = 0;
    while i < RULES.len() {
        all[i + 2] = RULES[i];
        i += 1;
    }
    all
}

/// What `redrive proxy` would otherwise be told each time.
pub(super) const PROXY: Table = Table {
    name: "proxy",
    about: "What redrive proxy would otherwise be told each time.",
    fields: &[
        Field::optional("upstream", URL, "The service behind it."),
        Field::optional("listen", ADDRESS, "Where it listens."),
        Field::optional("admin", ADDRESS, "Where health and metrics are told, apart from everything else."),
        Field::optional("policy", NAME, "The policy under which requests with a key are tried again."),
        Field::optional("connect_timeout", DURATION, "How long a connection to the service may take."),
        Field::optional("upstream_timeout", DURATION, "How long the service may take to answer."),
        Field::optional("client_timeout", DURATION, "How long a client may take to send its request."),
        Field::optional("drain_for", DURATION, "How long requests that are under way may take at the end."),
        Field::optional(
            "max_connections",
            Shape::Whole { min: 1, max: 1_000_000 },
            "How many clients are served at a time.",
        ),
    ],
    rules: &[],
};
