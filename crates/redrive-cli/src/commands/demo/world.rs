//! The flaky world of the demo: pieces of work, and what their upstream answers, chosen by a seed.
//!
//! The texts are as real clients and servers print them.

use redrive_policy::{Report, Rng};

/// A piece of work and the failures that its upstream will answer with before it succeeds.
pub(super) struct Work {
    /// The key of its name.
    pub(super) id: &'static str,
    pub(super) mishaps: Vec<Mishap>,
    /// Whether it would ever succeed.
    pub(super) heals: bool,
}

/// One failing answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mishap {
    pub(super) text: &'static str,
    http_status: Option<u16>,
    exit_code: Option<i32>,
    code: Option<&'static str>,
    retry_after_secs: Option<u64>,
}

impl Mishap {
    const fn text(text: &'static str) -> Mishap {
        Mishap { text, http_status: None, exit_code: None, code: None, retry_after_secs: None }
    }

    const fn status(http_status: u16, text: &'static str) -> Mishap {
        Mishap { http_status: Some(http_status), ..Mishap::text(text) }
    }

    pub(super) fn report(self) -> Report<'static> {
        let mut report = Report::text(self.text);
        report.http_status = self.http_status;
        report.exit_code = self.exit_code;
        report.code = self.code.map(Into::into);
        report.retry_after = self.retry_after_secs.map(std::time::Duration::from_secs);
        report
    }
}

const UNREACHABLE: &[Mishap] = &[
    Mishap::text("dial tcp 10.0.3.7:5000: connect: connection refused"),
    Mishap::text("('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"),
    Mishap { code: Some("EAI_AGAIN"), ..Mishap::text("getaddrinfo EAI_AGAIN api.example.com") },
    Mishap { exit_code: Some(6), ..Mishap::text("curl: (6) Could not resolve host: api.example.com") },
];

const THROTTLED: &[Mishap] = &[
    Mishap {
        retry_after_secs: Some(3),
        ..Mishap::status(429, "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Too many requests\"}}")
    },
    Mishap { code: Some("ThrottlingException"), ..Mishap::status(400, "ThrottlingException: Rate exceeded") },
];

const REFUSED: &[Mishap] = &[
    Mishap::status(
        401,
        "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"Incorrect API key provided\"}}",
    ),
    Mishap {
        code: Some("AccessDeniedException"),
        ..Mishap::status(403, "User is not authorized to perform: dynamodb:PutItem")
    },
];

const LOCKED: &[Mishap] = &[
    Mishap { code: Some("40P01"), ..Mishap::text("ERROR: deadlock detected") },
    Mishap {
        code: Some("40001"),
        ..Mishap::text("ERROR: could not serialize access due to concurrent update")
    },
    Mishap::text("sqlite3.OperationalError: database is locked"),
];

/// Wordings whose surface points the wrong way.
const MISLEADING: &[Mishap] = &[
    Mishap { exit_code: Some(1), ..Mishap::text("ValueError: timeout must be positive, got -5") },
    Mishap::status(400, "Invalid value for parameter 'retry_count': must be a number"),
];

const DOWN: &[Mishap] = &[
    Mishap::status(503, "upstream connect error or disconnect/reset before headers. reset reason: overflow"),
    Mishap::status(502, "<html><head><title>502 Bad Gateway</title></head></html>"),
    Mishap::status(500, "{\"message\":\"Internal Server Error\"}"),
];

const SLOW: &[Mishap] = &[
    Mishap::text("サーバーへの接続がタイムアウトしました。"),
    Mishap::text("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
];

/// The works of one show.
pub(super) fn works(seed: u64) -> Vec<Work> {
    let mut rng = Rng::seeded(seed);
    let mut work = |id, pool: &[Mishap], least: u64, most: u64, heals| {
        let failures = rng.between(least, most);
        let last = u64::try_from(pool.len().saturating_sub(1)).unwrap_or(0);
        let mishaps = (0..failures)
            .filter_map(|_| pool.get(usize::try_from(rng.between(0, last)).unwrap_or(0)).copied())
            .collect();
        Work { id, mishaps, heals }
    };
    vec![
        work("prices", UNREACHABLE, 1, 2, true),
        work("summary", THROTTLED, 1, 2, true),
        work("payment", REFUSED, 1, 1, false),
        work("order", LOCKED, 1, 2, true),
        work("import", MISLEADING, 1, 1, false),
        work("report", DOWN, 6, 6, false),
        work("mirror", SLOW, 1, 2, true),
    ]
}
