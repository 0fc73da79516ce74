//! An answer from a record (R-I3): verbatim, with its own date, and marked as what it is.

use bytes::Bytes;
use http::header::{DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use redrive_policy::Lang;
use redrive_policy::idempotency::{NEVER_KEPT, Rules};
use redrive_store::{MAX_HEADER_BYTES, StoredResponse, Timestamp};

use crate::problem::Problem;

/// Marks an answer from a record.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What is kept of an answer.
pub fn kept(rules: &Rules, status: StatusCode, headers: &HeaderMap, body: Option<Vec<u8>>) -> StoredResponse {
    let is_kept = |name: &HeaderName| {
        let name = name.as_str();
        rules.headers.iter().any(|kept| kept == name) && !NEVER_KEPT.contains(&name)
    };
    let headers = headers.iter().filter(|(name, _)| is_kept(name));
    let headers = headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let headers: Vec<(String, Vec<u8>)> = headers.collect();
    let status = status.as_u16();
    // More than any store takes: it is known that it was answered, and not with what.
    if headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_HEADER_BYTES {
        return StoredResponse { status, headers: Vec::new(), body: None };
    }
    StoredResponse { status, headers, body }
}

/// Dates an answer that has no date, so that its replay has the same.
pub(crate) fn dated(headers: &mut HeaderMap, now: Timestamp) {
    if !headers.contains_key(DATE)
        && let Ok(date) = HeaderValue::try_from(http_date(now))
    {
        headers.insert(DATE, date);
    }
}

/// As HTTP writes a moment: `Sun, 15 Nov 2026 11:03:32 GMT`.
fn http_date(at: Timestamp) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let written = at.to_string();
    let part = |range: std::ops::Range<usize>| written.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    // The first of January 1970 was a Thursday.
    let weekday = usize::try_from(at.millis().div_euclid(86_400_000).rem_euclid(7)).unwrap_or_default();
    let (month, weekday) = (month.unwrap_or(&MONTHS[0]), WEEKDAYS[weekday]);
    format!("{weekday}, {} {month} {} {} GMT", part(8..10), part(0..4), part(11..19))
}

/// The answer that was kept, once more.
pub(crate) fn replayed(stored: StoredResponse, lang: Lang) -> Response<Bytes> {
    let marked = |mut response: Response<Bytes>| {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        response
    };
    let Some(body) = stored.body else {
        return marked(Problem::ResponseNotKept { status: stored.status }.response(lang));
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in stored.headers {
        // Written by us from a valid answer; what cannot be read any more is left out rather than guessed.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&value)) {
            response.headers_mut().append(name, value);
        }
    }
    marked(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I3: a replay's date is written as HTTP writes it.
    #[test]
    fn a_moment_is_written_as_http_does() {
        let check = |at: &str, expected: &str| assert_eq!(http_date(at.parse().unwrap()), expected);
        check("1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 GMT");
        check("1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT");
        check("2024-02-29T23:59:59.999Z", "Thu, 29 Feb 2024 23:59:59 GMT");
        check("2026-11-15T11:03:32Z", "Sun, 15 Nov 2026 11:03:32 GMT");
    }
}
