//! The rules of idempotency (R-I1, R-I3, R-I5): which requests are guarded, what a key looks like, and what becomes of it when
//! the answer is there. A layer, a proxy and a command line ask the same rules; nothing here knows HTTP beyond its numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a completed key is known (R-I2).
pub const DEFAULT_KEEP_FOR: Duration = Duration::from_hours(72);
/// How long a holder may be silent before its outcome counts as unknown.
pub const DEFAULT_HOLD_FOR: Duration = Duration::from_secs(30);
/// How long a second request waits for the first, where routes wait.
pub const DEFAULT_WAIT_FOR: Duration = Duration::from_secs(10);
/// The longest request that is guarded; it has to be read before its key is taken.
pub const DEFAULT_MAX_REQUEST: usize = 1 << 20;
/// The longest answer that is kept.
pub const DEFAULT_MAX_RESPONSE: usize = 1 << 20;
/// The most characters in a key.
pub const MAX_KEY_CHARS: usize = 255;

/// What a key must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyForm {
    /// A UUID of any version, in its usual form of 36 characters. Upper case counts as lower case.
    #[default]
    Uuid,
    /// 1 to 255 visible ASCII characters.
    Any,
}

/// What a second request gets while the first is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InFlight {
    /// 409 with Retry-After.
    #[default]
    Conflict,
    /// It waits for the first one's answer, so long at most, and then gets 409.
    Wait(Duration),
}

/// What happens to a request whose first try ended nobody knows how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// It is refused until a person resets the key, or the key expires.
    #[default]
    Fail,
    /// It is run again: the route can bear that.
    SafeToRerun,
}

/// What becomes of a key when the answer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The answer is kept and replayed.
    Store,
    /// The key is free again: nothing was done, or it may be done again.
    Release,
    /// Nobody knows what was done: handled as [`OnUnknown`] says.
    Unknown,
}

impl Keep {
    /// The names in a configuration.
    pub const NAMES: &'static [&'static str] = &["store", "release", "unknown"];

    /// The one of that name.
    pub fn named(name: &str) -> Option<Keep> {
        match name {
            "store" => Some(Keep::Store),
            "release" => Some(Keep::Release),
            "unknown" => Some(Keep::Unknown),
            _ => None,
        }
    }
}

/// What becomes of a key by the status of its answer: one status beats its hundred.
///
/// ```
/// use redrive_policy::idempotency::{Keep, Outcomes};
/// let outcomes = Outcomes::default();
/// assert_eq!(outcomes.of(201), Keep::Store);
/// assert_eq!(outcomes.of(422), Keep::Store);
/// assert_eq!(outcomes.of(429), Keep::Release);
/// assert_eq!(outcomes.of(503), Keep::Release);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes {
    hundreds: [Keep; 6],
    single: BTreeMap<u16, Keep>,
}

impl Default for Outcomes {
    /// What succeeded, what redirects and what is wrong for good is kept. What was not let in, what comes too early or too often, and
    /// what went wrong on the server is not.
    fn default() -> Outcomes {
        let passing = [401, 403, 408, 425, 429];
        Outcomes {
            hundreds: [Keep::Release, Keep::Release, Keep::Store, Keep::Store, Keep::Store, Keep::Release],
            single: passing.into_iter().map(|status| (status, Keep::Release)).collect(),
        }
    }
}

impl Outcomes {
    /// What becomes of the key of an answer with this status.
    pub fn of(&self, status: u16) -> Keep {
        let by_hundred = || self.hundreds.get(usize::from(status / 100)).copied().unwrap_or(Keep::Unknown);
        self.single.get(&status).copied().unwrap_or_else(by_hundred)
    }

    /// Says it for one status.
    pub fn set(&mut self, status: u16, keep: Keep) {
        self.single.insert(status, keep);
    }

    /// Says it for a hundred, 2 to 5; statuses of their own stay as they are. Nothing happens for other numbers.
    pub fn set_hundred(&mut self, hundred: u16, keep: Keep) {
        if let Some(place) = self.hundreds.get_mut(usize::from(hundred)) {
            *place = keep;
        }
    }
}

/// Whose key it is: two callers may use the same one and never meet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Principal {
    /// A hash of the Authorization header; without one, nobody in particular.
    #[default]
    Authorization,
    /// A hash of this header, which something before us has set and checked.
    Header(String),
    /// Everybody is the same.
    Everybody,
}

/// How requests of a route are guarded. What a route does not say, the rules of everything say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What a key must look like.
    pub key: KeyForm,
    /// A request without a key is refused with 400; otherwise it passes unguarded.
    pub required: bool,
    /// What a second request gets meanwhile.
    pub in_flight: InFlight,
    /// The status for a key that came with another request: 409 or 422.
    pub mismatch_status: u16,
    /// What happens when nobody knows how the first try ended.
    pub unknown: OnUnknown,
    /// What becomes of a key by status.
    pub outcomes: Outcomes,
    /// How long a completed key is known.
    pub keep_for: Duration,
    /// How long a holder may be silent.
    pub hold_for: Duration,
    /// The longest request that is guarded; a longer one gets 413.
    pub max_request: usize,
    /// The longest answer that is kept. A longer one reaches its caller and is not kept; its replay says so.
    pub max_response: usize,
    /// Whose key it is.
    pub principal: Principal,
    /// The headers of an answer that are kept, in lower case. Those of [`NEVER_KEPT`] never are.
    pub headers: Vec<String>,
}

/// The headers of an answer that are kept unless others are named.
pub const KEPT_HEADERS: &[&str] = &[
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "vary",
];

/// Headers that are never kept, whoever asks for it: secrets, what belongs to one connection, and what is made anew.
pub const NEVER_KEPT: &[&str] = &[
    "authentication-info",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "idempotency-replayed",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
];

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            key: KeyForm::default(),
            required: false,
            in_flight: InFlight::default(),
            mismatch_status: 409,
            unknown: OnUnknown::default(),
            outcomes: Outcomes::default(),
            keep_for: DEFAULT_KEEP_FOR,
            hold_for: DEFAULT_HOLD_FOR,
            max_request: DEFAULT_MAX_REQUEST,
            max_response: DEFAULT_MAX_RESPONSE,
            principal: Principal::default(),
            headers: KEPT_HEADERS.iter().map(|&name| name.to_owned()).collect(),
        }
    }
}

/// The requests that rules are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// These methods, in upper case; none named: POST and PATCH.
    pub methods: Vec<String>,
    /// Which paths.
    pub path: PathPattern,
    /// How they are guarded.
    pub rules: Rules,
}

/// Which paths: segments, of which `{name}` stands for any one, and a last `**` for the rest, however many.
///
/// ```
/// use redrive_policy::idempotency::PathPattern;
/// let pattern: PathPattern = "/v1/bookmarks/{id}/reprocess".parse().unwrap();
/// assert!(pattern.matches("/v1/bookmarks/7/reprocess"));
/// assert!(!pattern.matches("/v1/bookmarks/7"));
/// assert!("/**".parse::<PathPattern>().unwrap().matches("/any/thing"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
    rest: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    Any,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPattern {
    /// It does not begin with a slash.
    NoSlash,
    /// `**` stands before the end.
    RestNotLast,
    /// A segment has a brace or a star in its middle.
    OddSegment,
}

impl std::str::FromStr for PathPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<PathPattern, BadPattern> {
        let mut parts: Vec<&str> = text.strip_prefix('/').ok_or(BadPattern::NoSlash)?.split('/').collect();
        let rest = parts.last() == Some(&"**");
        if rest {
            parts.pop();
        }
        // As paths are read.
        parts.retain(|part| !part.is_empty());
        let segment = |part: &&str| match *part {
            "**" => Err(BadPattern::RestNotLast),
            "*" => Ok(Segment::Any),
            part if part.len() > 2 && part.starts_with('{') && part.ends_with('}') => Ok(Segment::Any),
            part if part.contains(['*', '{', '}']) => Err(BadPattern::OddSegment),
            part => Ok(Segment::Exactly(part.to_owned())),
        };
        let segments = parts.iter().map(segment).collect::<Result<_, _>>()?;
        Ok(PathPattern { text: text.to_owned(), segments, rest })
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl PathPattern {
    /// Whether a path is meant, however it is spelt: services read `/v1//pay`, `/v1/./pay`, `/v1/p%61y` and `/v1/pay/` as `/v1/pay`, so
    /// that none of them may slip past.
    pub fn matches(&self, path: &str) -> bool {
        let spelt = plain_segments(path);
        let mut parts = spelt.iter();
        for segment in &self.segments {
            match (segment, parts.next()) {
                (Segment::Exactly(wanted), Some(part)) if wanted == part => {}
                (Segment::Any, Some(_)) => {}
                _ => return false,
            }
        }
        self.rest || parts.next().is_none()
    }
}

/// The segments of a path as services understand them: characters that need no escape are not escaped, nothing is empty, and dots lead
/// nowhere. What stands behind a semicolon belongs to no name.
fn plain_segments(path: &str) -> Vec<Cow<'_, str>> {
    let mut segments = Vec::new();
    for part in path.split('/') {
        let part = unescaped(part);
        let name: Cow<'_, str> = match part {
            Cow::Borrowed(part) => part.split(';').next().unwrap_or_default().into(),
            Cow::Owned(part) => part.split(';').next().unwrap_or_default().to_owned().into(),
        };
        match &*name {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(name),
        }
    }
    segments
}

/// With `%41` as `A`. An escaped slash stays escaped: it is no border between segments to those who read it so, and where it is one, the
/// service decodes it after it has chosen the route.
fn unescaped(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return part.into();
    }
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let bytes = part.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| Some((hex(*bytes.get(at + 1)?)? << 4) | hex(*bytes.get(at + 2)?)?))
            .flatten();
        match escaped {
            Some(byte) if byte.is_ascii_graphic() && byte != b'/' => {
                plain.push(byte);
                at += 3;
            }
            _ => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).map_or_else(|_| part.into(), Cow::Owned)
}

/// Everything that is guarded: the routes in order, the first that fits counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guarded {
    /// The routes.
    pub routes: Vec<Route>,
}

impl Guarded {
    /// What guards a service when nothing is configured (design.md §5): every POST and PATCH that carries a key, which may be any
    /// text; nothing is required.
    pub fn whatever_carries_a_key() -> Guarded {
        Guarded::everything(Rules { key: KeyForm::Any, ..Rules::default() })
    }

    /// Every POST and PATCH, by these rules.
    pub fn everything(rules: Rules) -> Guarded {
        let everything = PathPattern { text: "/**".to_owned(), segments: Vec::new(), rest: true };
        Guarded { routes: vec![Route { methods: Vec::new(), path: everything, rules }] }
    }

    /// The route of a request; none: it passes.
    pub fn route(&self, method: &str, path: &str) -> Option<&Route> {
        self.routes.get(self.position(method, path)?)
    }

    /// The place of that route among the routes. Methods are compared without case: some services read `post` as `POST`.
    pub fn position(&self, method: &str, path: &str) -> Option<usize> {
        let meant = |route: &Route| {
            let by_method = if route.methods.is_empty() {
                ["POST", "PATCH"].iter().any(|known| known.eq_ignore_ascii_case(method))
            } else {
                route.methods.iter().any(|wanted| wanted.eq_ignore_ascii_case(method))
            };
            by_method && route.path.matches(path)
        };
        self.routes.iter().position(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I1: a guarded route is guarded however its path is spelt.
    #[test]
    fn no_spelling_slips_past_a_route() {
        let pattern: PathPattern = "/v1/payments".parse().unwrap();
        let same = [
            "/v1/payments",
            "/v1/payments/",
            "/v1//payments",
            "//v1/payments",
            "/v1/./payments",
            "/v1/x/../payments",
            "/v1/payment%73",
            "/%76%31/payments",
            "/v1/payments;a=1",
            "/v1/payments/.",
            "/../v1/payments",
            "/v1/%2e/payments",
        ];
        for path in same {
            assert!(pattern.matches(path), "{path}");
        }
        for path in [
            "/v1/payment",
            "/v1/payments/7",
            "/v1%2fpayments",
            "/v2/payments",
            "/",
            "",
            "/v1/payments%",
            "/v1/payments%zz",
            "/v1/支払",
        ] {
            assert!(!pattern.matches(path), "{path}");
        }
        assert!("/v1/{id}/**".parse::<PathPattern>().unwrap().matches("/v1//7/a/b"));
        assert!("/".parse::<PathPattern>().unwrap().matches("/"));
        assert!(Guarded::whatever_carries_a_key().route("post", "/any").is_some());
        assert!(Guarded::whatever_carries_a_key().route("GET", "/any").is_none());
    }

    /// R-I1: what is no pattern is refused, and says why.
    #[test]
    fn patterns_are_read_strictly() {
        let bad = |text: &str| text.parse::<PathPattern>().unwrap_err();
        assert_eq!(bad("v1"), BadPattern::NoSlash);
        assert_eq!(bad("/**/v1"), BadPattern::RestNotLast);
        assert_eq!(bad("/v1/a{id}"), BadPattern::OddSegment);
    }

    /// R-I5: what becomes of a key by the status of its answer, and how that is changed.
    #[test]
    fn outcomes_by_status() {
        let mut outcomes = Outcomes::default();
        for (status, keep) in [
            (200, Keep::Store),
            (201, Keep::Store),
            (303, Keep::Store),
            (400, Keep::Store),
            (404, Keep::Store),
            (422, Keep::Store),
            (401, Keep::Release),
            (403, Keep::Release),
            (408, Keep::Release),
            (425, Keep::Release),
            (429, Keep::Release),
            (500, Keep::Release),
            (503, Keep::Release),
            (999, Keep::Unknown),
        ] {
            assert_eq!(outcomes.of(status), keep, "{status}");
        }
        outcomes.set_hundred(5, Keep::Unknown);
        outcomes.set(503, Keep::Release);
        assert_eq!([500, 503].map(|status| outcomes.of(status)), [Keep::Unknown, Keep::Release]);
    }
}
