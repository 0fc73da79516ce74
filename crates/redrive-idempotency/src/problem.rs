//! What a client is told when its request is not run: application/problem+json, with a type by which programs tell the cases apart.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use redrive_policy::{Catalog, Lang};
use serde::Serialize;

use crate::key::BadKey;
use crate::word::REDRIVE_IDEMPOTENCY;

static CATALOG: LazyLock<Option<Catalog>> = LazyLock::new(|| {
    Catalog::load(include_str!("../messages/en.toml"), include_str!("../messages/ja.toml")).ok()
});

/// Why a request is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The route demands a key, and there is none.
    KeyMissing,
    /// The key is no key.
    KeyMalformed(BadKey),
    /// The key came with another request before; with the status that the route wants.
    Mismatch {
        /// 409 or 422.
        status: u16,
    },
    /// The first request is still running.
    InFlight {
        /// When it may be worth asking again.
        retry_after: Duration,
    },
    /// The first request was begun, and nobody knows how it ended.
    UnknownOutcome,
    /// The first request was answered with this status, and the answer was not kept.
    ResponseNotKept {
        /// The status of that answer.
        status: u16,
    },
    /// The request is longer than what is guarded.
    RequestTooLarge {
        /// The most bytes.
        limit: usize,
    },
    /// The request's body broke off, or came too slowly.
    RequestBroken,
    /// The store cannot be asked, so nothing is run.
    StoreUnavailable,
    /// The handler broke down on the way.
    HandlerBroke,
    /// No connection to the service behind the proxy came about.
    UpstreamUnreachable,
    /// The service behind the proxy went away, or answered what is no HTTP.
    UpstreamLost(Doubt),
    /// The service behind the proxy did not answer in time.
    UpstreamTimeout(Doubt),
    /// The proxy cannot pass on such a request.
    ProxyRefused(Refusal),
}

/// What a request that had been sent leaves behind when no answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It had no key: it is the client's to find out.
    Unguarded,
    /// Its key says from now on that nobody knows how it ended.
    Unknown,
    /// Its route can bear another try, so the client may send it again.
    SafeToRerun,
}

impl Doubt {
    const fn name(self) -> &'static str {
        match self {
            Doubt::Unguarded => "detail",
            Doubt::Unknown => "unknown",
            Doubt::SafeToRerun => "safe_to_rerun",
        }
    }
}

/// Why the proxy does not pass on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It wants a tunnel to somewhere.
    Connect,
    /// It says no host, or more than one.
    Host,
    /// It names no path.
    Target,
    /// It is written in a coding that nobody here reads.
    Coding,
    /// It comes from this proxy itself.
    Loop,
    /// There is nothing under this reserved path.
    Reserved,
}

impl Refusal {
    const fn name(self) -> &'static str {
        match self {
            Refusal::Connect => "connect",
            Refusal::Host => "host",
            Refusal::Target => "target",
            Refusal::Coding => "coding",
            Refusal::Loop => "loop",
            Refusal::Reserved => "reserved",
        }
    }
}

impl Problem {
    /// The last part of its type, which never changes.
    pub const fn code(&self) -> &'static str {
        match self {
            Problem::KeyMissing => "idempotency-key-missing",
            Problem::KeyMalformed(_) => "idempotency-key-malformed",
            Problem::Mismatch { .. } => "idempotency-mismatch",
            Problem::InFlight { .. } => "idempotency-in-flight",
            Problem::UnknownOutcome => "idempotency-unknown-outcome",
            Problem::ResponseNotKept { .. } => "idempotency-response-not-kept",
            Problem::RequestTooLarge { .. } => "idempotency-request-too-large",
            Problem::RequestBroken => "idempotency-request-broken",
            Problem::StoreUnavailable => "idempotency-store-unavailable",
            Problem::HandlerBroke => "idempotency-handler-broke",
            Problem::UpstreamUnreachable => "upstream-unreachable",
            Problem::UpstreamLost(_) => "upstream-lost",
            Problem::UpstreamTimeout(_) => "upstream-timeout",
            Problem::ProxyRefused(_) => "proxy-request-refused",
        }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        match self {
            Problem::KeyMissing | Problem::KeyMalformed(_) | Problem::RequestBroken => {
                StatusCode::BAD_REQUEST
            }
            Problem::Mismatch { status } => StatusCode::from_u16(*status).unwrap_or(StatusCode::CONFLICT),
            Problem::InFlight { .. } | Problem::UnknownOutcome | Problem::ResponseNotKept { .. } => {
                StatusCode::CONFLICT
            }
            Problem::RequestTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Problem::HandlerBroke => StatusCode::INTERNAL_SERVER_ERROR,
            Problem::UpstreamUnreachable | Problem::UpstreamLost(_) => StatusCode::BAD_GATEWAY,
            Problem::UpstreamTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Problem::ProxyRefused(Refusal::Connect | Refusal::Coding) => StatusCode::NOT_IMPLEMENTED,
            Problem::ProxyRefused(Refusal::Host | Refusal::Target) => StatusCode::BAD_REQUEST,
            Problem::ProxyRefused(Refusal::Loop) => StatusCode::LOOP_DETECTED,
            Problem::ProxyRefused(Refusal::Reserved) => StatusCode::NOT_FOUND,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Problem::InFlight { retry_after } => Some(*retry_after),
            Problem::StoreUnavailable | Problem::UpstreamUnreachable => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// The whole answer, in the language that the request asks for.
    pub fn response(&self, lang: Lang) -> Response<Bytes> {
        let code = self.code();
        let status = self.status();
        let title = text(lang, &format!("{code}.title"), &[]);
        let detail = match self {
            Problem::KeyMalformed(bad) => text(lang, &format!("{code}.{}", bad.name()), &[]),
            Problem::ResponseNotKept { status } => {
                text(lang, &format!("{code}.detail"), &[("status", status)])
            }
            Problem::RequestTooLarge { limit } => text(lang, &format!("{code}.detail"), &[("limit", limit)]),
            Problem::UpstreamLost(doubt) | Problem::UpstreamTimeout(doubt) => {
                text(lang, &format!("{code}.{}", doubt.name()), &[])
            }
            Problem::ProxyRefused(refusal) => text(lang, &format!("{code}.{}", refusal.name()), &[]),
            _ => text(lang, &format!("{code}.detail"), &[]),
        };
        let kind = format!("urn:redrive:problem:{code}");
        let told = Told { kind: &kind, title: &title, status: status.as_u16(), detail: &detail, code };
        // Texts and numbers always become JSON.
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        response.extensions_mut().insert(FreshProblem);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(lang.name()));
        if let Some(after) = self.retry_after() {
            let seconds = after.as_millis().div_ceil(1_000).max(1);
            headers.insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        if self.is_in_doubt() {
            // A guard before this one must not take it for an answer, nor run it again.
            headers.insert(REDRIVE_IDEMPOTENCY, HeaderValue::from_static("unknown"));
        }
        response
    }

    fn is_in_doubt(&self) -> bool {
        match self {
            Problem::UnknownOutcome | Problem::HandlerBroke => true,
            Problem::UpstreamLost(doubt) | Problem::UpstreamTimeout(doubt) => *doubt == Doubt::Unknown,
            _ => false,
        }
    }
}

/// Stands in the extensions of an answer that is a problem of this crate's own, made for this very request and kept for no other: whoever
/// is around it may add to its JSON which request it was.
#[derive(Debug, Clone, Copy)]
pub struct FreshProblem;

/// In the order in which the RFC names them.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
}

fn text(lang: Lang, key: &str, values: &[(&str, &dyn std::fmt::Display)]) -> String {
    CATALOG.as_ref().map_or_else(|| key.to_owned(), |catalog| catalog.text(lang, key, values))
}

/// The language that a request asks for first, of those that we speak, by its Accept-Language.
///
/// ```
/// let mut headers = http::HeaderMap::new();
/// headers.insert("accept-language", "ja-JP, en;q=0.5".parse().unwrap());
/// assert_eq!(redrive_idempotency::language(&headers), redrive_policy::Lang::Ja);
/// ```
pub fn language(headers: &HeaderMap) -> Lang {
    let Some(wanted) = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()) else {
        return Lang::default();
    };
    let weighed = wanted.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let lang = Lang::of_locale(&parts.next()?.to_ascii_lowercase())?;
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        (weight > 0.0).then_some((lang, weight))
    });
    let best = weighed.fold(None, |best: Option<(Lang, f32)>, next| match best {
        Some(best) if best.1 >= next.1 => Some(best),
        _ => Some(next),
    });
    best.map(|(lang, _)| lang).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Problem> {
        let bad = [
            BadKey::Twice,
            BadKey::Empty,
            BadKey::TooLong,
            BadKey::NotVisible,
            BadKey::Quotes,
            BadKey::NotUuid,
        ];
        let mut every = vec![
            Problem::KeyMissing,
            Problem::Mismatch { status: 409 },
            Problem::Mismatch { status: 422 },
            Problem::InFlight { retry_after: Duration::from_millis(1) },
            Problem::UnknownOutcome,
            Problem::ResponseNotKept { status: 201 },
            Problem::RequestTooLarge { limit: 1_048_576 },
            Problem::RequestBroken,
            Problem::StoreUnavailable,
            Problem::HandlerBroke,
        ];
        every.extend(bad.map(Problem::KeyMalformed));
        for doubt in [Doubt::Unguarded, Doubt::Unknown, Doubt::SafeToRerun] {
            every.extend([Problem::UpstreamLost(doubt), Problem::UpstreamTimeout(doubt)]);
        }
        let refusals = [
            Refusal::Connect,
            Refusal::Host,
            Refusal::Target,
            Refusal::Coding,
            Refusal::Loop,
            Refusal::Reserved,
        ];
        every.extend(refusals.map(Problem::ProxyRefused));
        every.push(Problem::UpstreamUnreachable);
        every
    }

    /// R-I4, R-C2: every problem has its words in both languages, with its numbers in them, and says its own status.
    #[test]
    fn every_problem_has_its_words_in_both_languages() {
        for problem in every() {
            for lang in [Lang::En, Lang::Ja] {
                let response = problem.response(lang);
                let told: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
                assert_eq!(told["type"], format!("urn:redrive:problem:{}", problem.code()));
                assert_eq!(told["status"], response.status().as_u16());
                assert_eq!(response.headers()[CONTENT_LANGUAGE], lang.name());
                for words in ["title", "detail"] {
                    let words = told[words].as_str().unwrap();
                    assert!(
                        !words.starts_with("idempotency-") && !words.contains('{'),
                        "{problem:?}: {words}"
                    );
                    assert_eq!(words.is_ascii(), lang == Lang::En, "{problem:?}: {words}");
                }
            }
        }
        let limit = Problem::RequestTooLarge { limit: 77 }.response(Lang::Ja);
        assert!(String::from_utf8_lossy(limit.body()).contains("77"));
    }

    /// R-I4: those that are worth asking again for say when.
    #[test]
    fn retry_after_is_at_least_a_second() {
        for problem in every() {
            let told = problem.response(Lang::En).headers().get(RETRY_AFTER).cloned();
            let asks_again = matches!(
                problem,
                Problem::InFlight { .. } | Problem::StoreUnavailable | Problem::UpstreamUnreachable
            );
            assert_eq!(told.map(|after| after == "1"), asks_again.then_some(true), "{problem:?}");
        }
    }

    /// R-C2: the language is the one that is wanted most, of those that we speak.
    #[test]
    fn the_language_is_the_one_that_is_wanted_most() {
        let check = |wanted: &'static str, expected: Lang| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(wanted));
            assert_eq!(language(&headers), expected, "{wanted}");
        };
        check("ja", Lang::Ja);
        check("ja-JP,ja;q=0.9,en-US;q=0.8", Lang::Ja);
        check("en;q=0.3, ja;q=0.7", Lang::Ja);
        check("ja;q=0, en", Lang::En);
        check("fr, de", Lang::En);
        check("", Lang::En);
        check(";;;q=x,,", Lang::En);
        assert_eq!(language(&HeaderMap::new()), Lang::En);
    }
}
