//! What the section `server` of a configuration looks like: the only place that says so, as [`file`](super::file) is for the
//! rest.

use super::file::{DURATION, WORDS};
use super::idempotency_file::MAX_BODY;
use super::shape::{Field, Shape, Table};

const ADDRESS: Shape = Shape::Form {
    pattern: r"^(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}$",
    called: "address",
};
/// A name, an address, or an address in brackets; without a port.
const HOST: Shape =
    Shape::Form { pattern: r"^(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253})$", called: "host" };
const ORIGIN: Shape = Shape::Form {
    pattern: r"^https?://(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?$",
    called: "origin",
};
/// A network, an address, a host, or a host and a port.
const ALLOWED: Shape = Shape::Form {
    pattern: r"^([A-Za-z0-9._-]{1,253}(/[0-9]{1,3}|:[0-9]{1,5})?|[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?)$",
    called: "allowed",
};
const PORT: Shape = Shape::Whole { min: 1, max: 65_535 };
const CONNECTIONS: Shape = Shape::Whole { min: 1, max: 1_000_000 };

/// Where `redrive serve` listens, whom it lets in, and what work that came in over the API may do.
pub(super) const SERVER: Table = Table {
    name: "server",
    about: "Where redrive serve listens, whom it lets in, and what work that came in over the API may do.",
    fields: &[
        Field::optional(
            "listen",
            Shape::List { of: &ADDRESS, min_len: 1 },
            "Where it listens (127.0.0.1:7411).",
        ),
        Field::optional(
            "hosts",
            Shape::List { of: &HOST, min_len: 0 },
            "The names that it answers to, beside those of this machine.",
        ),
        Field::optional(
            "origins",
            Shape::List { of: &ORIGIN, min_len: 0 },
            "Pages of these origins may ask, beside its own.",
        ),
        Field::optional(
            "allow",
            Shape::List { of: &ALLOWED, min_len: 0 },
            "Private addresses that calls which came in over the API may reach.",
        ),
        Field::optional(
            "ports",
            Shape::List { of: &PORT, min_len: 1 },
            "The ports that such calls may reach (80 and 443).",
        ),
        Field::optional(
            "commands",
            Shape::List { of: &WORDS, min_len: 0 },
            "The programs that jobs which came in over the API may run (none).",
        ),
        Field::optional("tls", Shape::Table(&TLS), "The certificate that it shows."),
        Field::optional(
            "insecure_http",
            Shape::Bool,
            "Listen beyond this machine without TLS: a proxy in front of it does that (false).",
        ),
        Field::optional("concurrency", Shape::Whole { min: 0, max: 1_024 }, "How many jobs it runs at once."),
        Field::optional("drain_for", DURATION, "How long what runs may take at the end (30s)."),
        Field::optional("max_connections", CONNECTIONS, "How many clients are served at a time (10000)."),
        Field::optional(
            "max_connections_per_address",
            CONNECTIONS,
            "How many of them may come from one address (1000).",
        ),
        Field::optional("max_body", Shape::Size { max: MAX_BODY }, "The longest request (8MiB)."),
    ],
    rules: &[],
};

const TLS: Table = Table {
    name: "tls",
    about: "The certificate that the server shows.",
    fields: &[
        Field::required("cert", WORDS, "The file with the certificates, as PEM."),
        Field::required("key", WORDS, "The file with their key, as PEM; mode 600."),
    ],
    rules: &[],
};
