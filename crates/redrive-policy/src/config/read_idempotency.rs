//! Which requests are guarded, and what the proxy is told, as a file writes them (R-I1, R-I3, R-I5, R-I6).
//!
//! A route takes what it does not say from its section, and a section takes it from the rules that always hold. The headers of a
//! route replace those of the section; its outcomes are added to them.

use std::time::Duration;

use super::Notes;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::words::short;
use crate::duration::human_duration;
use crate::idempotency::{
    DEFAULT_WAIT_FOR, Guarded, InFlight, Keep, KeyForm, NEVER_KEPT, OnUnknown, Principal, Route, Rules,
};
use crate::size::parse_size;

/// A holder renews its hold a few times while it lasts, and a key that is forgotten at once guards nothing.
const LEAST: Duration = Duration::from_secs(1);
/// Nobody can connect or answer in no time.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);

/// What `redrive proxy` would otherwise be told each time. What is not said is the proxy's to choose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxySettings {
    /// The service behind it.
    pub upstream: Option<String>,
    /// Where it listens: a host and a port.
    pub listen: Option<String>,
    /// Where health and metrics are told, apart from everything else: a host and a port.
    pub admin: Option<String>,
    /// The policy under which requests with a key are tried again.
    pub policy: Option<String>,
    /// How long a connection to the service may take.
    pub connect_timeout: Option<Duration>,
    /// How long the service may take to answer.
    pub upstream_timeout: Option<Duration>,
    /// How long a client may take to send its request.
    pub client_timeout: Option<Duration>,
    /// How long requests that are under way may take at the end.
    pub drain_for: Option<Duration>,
    /// How many clients are served at a time.
    pub max_connections: Option<u32>,
}

/// Rules, and how long a second request would wait if it waited: a route may say the one and its section the other.
#[derive(Clone)]
struct Said {
    rules: Rules,
    waits: bool,
    wait_for: Duration,
}

/// What the section `idempotency` guards; nothing without one.
pub(super) fn read(file: &Node, notes: &mut Notes) -> Option<Guarded> {
    let section = file.get("idempotency").filter(|section| matches!(section.value, Value::Table(_)))?;
    let path = Path::Top.field("idempotency");
    let usual = Said { rules: Rules::default(), waits: false, wait_for: DEFAULT_WAIT_FOR };
    let said = over(usual, section, &path, notes);
    let Some(Value::List(items)) = section.get("route").map(|routes| &routes.value) else {
        return Some(Guarded::everything(said.rules));
    };
    let mut routes = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let rules = over(said.clone(), item, &path.field("route").item(i), notes).rules;
        // A path that is none is noted by its shape, and nothing is made of the file then.
        let Some(path) = item.get("path").and_then(Node::text).and_then(|path| path.parse().ok()) else {
            continue;
        };
        let methods = item.get("methods").map(Node::items).unwrap_or_default();
        let methods = methods.iter().filter_map(Node::text).map(str::to_ascii_uppercase).collect();
        routes.push(Route { methods, path, rules });
    }
    Some(Guarded { routes })
}

/// The section `proxy`. Whether its policy exists is asked by whoever knows them all.
pub(super) fn read_proxy(file: &Node, notes: &mut Notes) -> ProxySettings {
    let Some(section) = file.get("proxy") else { return ProxySettings::default() };
    let text = |name: &str| section.get(name).and_then(Node::text).map(str::to_owned);
    let path = Path::Top.field("proxy");
    let mut timeout = |name: &str| at_least(LEAST_TIMEOUT, section, name, &path, notes);
    ProxySettings {
        upstream: text("upstream"),
        listen: text("listen"),
        admin: text("admin"),
        policy: text("policy"),
        connect_timeout: timeout("connect_timeout"),
        upstream_timeout: timeout("upstream_timeout"),
        client_timeout: timeout("client_timeout"),
        drain_for: duration(section, "drain_for", "drain_for"),
        max_connections: section
            .get("max_connections")
            .and_then(Node::whole)
            .and_then(|most| u32::try_from(most).ok()),
    }
}

/// What a table says, and the rest as it was.
fn over(mut said: Said, table: &Node, path: &Path<'_>, notes: &mut Notes) -> Said {
    let text = |name: &str| table.get(name).and_then(Node::text);
    let rules = &mut said.rules;
    for (name, place) in [("keep_for", &mut rules.keep_for), ("hold_for", &mut rules.hold_for)] {
        *place = at_least(LEAST, table, name, path, notes).unwrap_or(*place);
    }
    for (name, place) in [("max_request", &mut rules.max_request), ("max_response", &mut rules.max_response)]
    {
        *place = table.get(name).and_then(size).unwrap_or(*place);
    }
    match text("key") {
        Some("uuid") => rules.key = KeyForm::Uuid,
        Some("any") => rules.key = KeyForm::Any,
        _ => {}
    }
    match text("unknown") {
        Some("fail") => rules.unknown = OnUnknown::Fail,
        Some("safe_to_rerun") => rules.unknown = OnUnknown::SafeToRerun,
        _ => {}
    }
    match text("principal") {
        Some("authorization") => rules.principal = Principal::Authorization,
        Some("everybody") => rules.principal = Principal::Everybody,
        Some(other) => {
            let header = other.strip_prefix("header:").map(str::to_ascii_lowercase);
            rules.principal = header.map_or_else(|| rules.principal.clone(), Principal::Header);
        }
        None => {}
    }
    rules.required = table.get("required").and_then(Node::bool).unwrap_or(rules.required);
    let status = table.get("mismatch_status").and_then(Node::whole);
    rules.mismatch_status =
        status.and_then(|status| u16::try_from(status).ok()).unwrap_or(rules.mismatch_status);
    if let Some(headers) = table.get("headers") {
        rules.headers = read_headers(headers, &path.field("headers"), notes);
    }
    for (status, keep) in table.get("outcomes").map(Node::fields).unwrap_or_default() {
        let Some(keep) = keep.text().and_then(Keep::named) else { continue };
        match status.strip_suffix("xx").map(str::parse) {
            Some(Ok(hundred)) => rules.outcomes.set_hundred(hundred, keep),
            _ => status.parse().into_iter().for_each(|status| rules.outcomes.set(status, keep)),
        }
    }
    said.wait_for = duration(table, "wait_for", "wait_for").unwrap_or(said.wait_for);
    said.waits = text("in_flight").map_or(said.waits, |name| name == "wait");
    said.rules.in_flight = if said.waits { InFlight::Wait(said.wait_for) } else { InFlight::Conflict };
    said
}

/// A duration that must not be shorter than this; one that is gets noted.
fn at_least(
    least: Duration,
    table: &Node,
    name: &str,
    path: &Path<'_>,
    notes: &mut Notes,
) -> Option<Duration> {
    let node = table.get(name)?;
    let given = duration(table, name, name)?;
    if given < least {
        let kind = ProblemKind::TooShort { given: human_duration(given) };
        notes.wrong.add(node.at, &path.field(name), kind, Expected::AtLeast(human_duration(least)));
    }
    Some(given)
}

fn size(node: &Node) -> Option<usize> {
    match node.text() {
        Some(text) => usize::try_from(parse_size(text).ok()?).ok(),
        None => usize::try_from(node.whole()?).ok(),
    }
}

/// The names in lower case; those that are never kept are noted, each with the reason.
fn read_headers(list: &Node, path: &Path<'_>, notes: &mut Notes) -> Vec<String> {
    let mut headers = Vec::new();
    for (i, item) in list.items().iter().enumerate() {
        let Some(name) = item.text().map(str::to_ascii_lowercase) else { continue };
        if NEVER_KEPT.contains(&name.as_str()) {
            let kind = ProblemKind::NeverKept { given: short(&name), reason: never_kept_because(&name) };
            notes.wrong.add(item.at, &path.item(i), kind, Expected::OtherHeader);
        } else if !headers.contains(&name) {
            headers.push(name);
        }
    }
    headers
}

/// Why a header is never kept. What is not known to be harmless counts as a secret.
fn never_kept_because(name: &str) -> &'static str {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "transfer-encoding"
        | "upgrade" => "connection",
        "content-length" | "idempotency-replayed" => "anew",
        _ => "secret",
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;
    use crate::idempotency::{DEFAULT_KEEP_FOR, KEPT_HEADERS, Outcomes};

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Format::Toml, "redrive.toml").map_err(|error| error.to_string())
    }

    fn guarded(text: &str) -> Guarded {
        parse(text).unwrap().idempotency.unwrap()
    }

    /// R-I1: no section leaves the choice to the proxy; a bare one guards every POST and PATCH by the usual rules.
    #[test]
    fn a_section_without_routes_guards_everything() {
        assert_eq!(parse("").unwrap().idempotency, None);
        assert_eq!(guarded("[idempotency]"), Guarded::everything(Rules::default()));
        let only_any = guarded("[idempotency]\nkey = \"any\"");
        assert_eq!(only_any, Guarded::whatever_carries_a_key());
        assert_eq!(guarded("[idempotency]\nroute = []").routes, []);
    }

    /// R-I1, R-I2, R-I3, R-I5: everything that a section can say is read.
    #[test]
    fn a_section_is_read_whole() {
        let text = r#"
            [idempotency]
            keep_for = "24h"
            hold_for = "1m"
            wait_for = "3s"
            key = "any"
            required = true
            in_flight = "wait"
            mismatch_status = 422
            unknown = "safe_to_rerun"
            max_request = "2MiB"
            max_response = 4096
            principal = "header:X-User"
            headers = ["Content-Type", "location", "content-type"]
            [idempotency.outcomes]
            "5xx" = "unknown"
            "429" = "store"
        "#;
        let mut outcomes = Outcomes::default();
        outcomes.set_hundred(5, Keep::Unknown);
        outcomes.set(429, Keep::Store);
        let expected = Rules {
            key: KeyForm::Any,
            required: true,
            in_flight: InFlight::Wait(Duration::from_secs(3)),
            mismatch_status: 422,
            unknown: OnUnknown::SafeToRerun,
            outcomes,
            keep_for: Duration::from_hours(24),
            hold_for: Duration::from_mins(1),
            max_request: 2 << 20,
            max_response: 4096,
            principal: Principal::Header("x-user".to_owned()),
            headers: vec!["content-type".to_owned(), "location".to_owned()],
        };
        assert_eq!(guarded(text), Guarded::everything(expected));
    }

    /// R-I1: a route says what it has otherwise; the rest is its section's, and what that does not say is as usual.
    #[test]
    fn a_route_overrides_its_section() {
        let text = r#"
            [idempotency]
            key = "any"
            wait_for = "3s"
            headers = ["etag"]
            outcomes = { "5xx" = "unknown" }
            [[idempotency.route]]
            methods = ["post", "PUT"]
            path = "/v1/bookmarks"
            required = true
            key = "uuid"
            in_flight = "wait"
            headers = []
            outcomes = { "503" = "release" }
            [[idempotency.route]]
            path = "/v1/**"
        "#;
        let guarded = guarded(text);
        let first = guarded.route("PUT", "/v1/bookmarks").unwrap();
        assert_eq!(first.methods, ["POST", "PUT"]);
        assert_eq!((first.rules.key, first.rules.required), (KeyForm::Uuid, true));
        assert_eq!(first.rules.in_flight, InFlight::Wait(Duration::from_secs(3)));
        assert!(first.rules.headers.is_empty());
        assert_eq!(
            (first.rules.outcomes.of(503), first.rules.outcomes.of(500)),
            (Keep::Release, Keep::Unknown)
        );
        let second = guarded.route("PATCH", "/v1/other").unwrap();
        assert_eq!((second.rules.key, second.rules.required), (KeyForm::Any, false));
        assert_eq!(second.rules.in_flight, InFlight::Conflict);
        assert_eq!(
            (second.rules.headers.as_slice(), second.rules.keep_for),
            (["etag".to_owned()].as_slice(), DEFAULT_KEEP_FOR)
        );
        assert!(guarded.route("PUT", "/v1/other").is_none() && guarded.route("POST", "/v2").is_none());
    }

    /// R-I5: a header that is never kept is refused with the reason, however it is written; each of the usual ones passes.
    #[test]
    fn headers_that_are_never_kept_are_refused_with_the_reason() {
        for (header, reason) in [
            ("Set-Cookie", "can hold a secret"),
            ("authorization", "can hold a secret"),
            ("Transfer-Encoding", "belongs to one connection"),
            ("content-length", "made anew"),
        ] {
            let error = parse(&format!("[idempotency]\nheaders = [\"etag\", \"{header}\"]")).unwrap_err();
            let expected = [
                "idempotency.headers[1]",
                &header.to_lowercase(),
                reason,
                "allowed: headers without secrets",
            ];
            assert!(expected.iter().all(|words| error.contains(words)), "{error}");
        }
        assert!(NEVER_KEPT.iter().all(|name| parse(&format!("idempotency.headers = [\"{name}\"]")).is_err()));
        assert!(
            KEPT_HEADERS.iter().all(|name| parse(&format!("idempotency.headers = [\"{name}\"]")).is_ok())
        );
    }

    /// R-I1, R-I6: whatever is wrong is told with its place and with what is allowed there.
    #[test]
    fn a_bad_section_does_not_load() {
        for (text, words) in [
            ("[idempotency]\nkeepfor = \"1h\"", ["idempotency.keepfor", "keep_for"]),
            ("[idempotency]\nkey = \"uid\"", ["idempotency.key", "did you mean uuid"]),
            ("[idempotency]\nmismatch_status = 400", ["idempotency.mismatch_status", "409 or 422"]),
            ("[idempotency]\nhold_for = \"10ms\"", ["idempotency.hold_for", "at least 1s"]),
            ("[idempotency]\nmax_response = \"65MiB\"", ["idempotency.max_response", "up to 64MiB"]),
            ("[idempotency]\nprincipal = \"cookie\"", ["idempotency.principal", "header:NAME"]),
            ("[idempotency.outcomes]\n\"1xx\" = \"store\"", ["outcomes.1xx", "a status from 200 to 599"]),
            ("[idempotency.outcomes]\n5xx = \"keep\"", ["outcomes.5xx", "store, release or unknown"]),
            ("[[idempotency.route]]\nmethods = [\"POST\"]", ["idempotency.route[0]", "path is missing"]),
            ("[[idempotency.route]]\npath = \"v1\"", ["route[0].path", "a path such as /v1/bookmarks"]),
            ("[[idempotency.route]]\npath = \"/a/**/b\"", ["route[0].path", "a path such as"]),
            ("[[idempotency.route]]\npath = \"/a\"\nmethods = [\"PO ST\"]", ["methods[0]", "such as POST"]),
            ("[[idempotency.route]]\npath = \"/a\"\nkeep_for = \"0\"", ["route[0].keep_for", "at least 1s"]),
            ("[proxy]\nupstream = \"localhost:3000\"", ["proxy.upstream", "http://127.0.0.1:3000"]),
            ("[proxy]\nlisten = \"7412\"", ["proxy.listen", "a host and a port"]),
            ("[proxy]\npolicy = \"stadnard\"", ["proxy.policy", "standard"]),
            ("[proxy]\nclient_timeout = \"0\"", ["proxy.client_timeout", "at least 1ms"]),
        ] {
            let error = parse(text).unwrap_err();
            assert!(words.iter().all(|words| error.contains(words)), "{error}");
        }
    }

    /// R-I1: whatever the shape of a path lets pass is a pattern, so no route is lost in silence.
    #[test]
    fn every_path_that_is_let_pass_is_a_pattern() {
        for path in ["/", "/**", "/v1", "/v1/", "/v1/*/x", "/v1/{id}/x", "/v1/{id}/**", "//a"] {
            let text = format!("[[idempotency.route]]\npath = \"{path}\"");
            assert_eq!(guarded(&text).routes.len(), 1, "{path}");
        }
    }

    /// R-I6: what the proxy is told.
    #[test]
    fn the_proxy_is_read_whole() {
        let text = r#"
            [proxy]
            upstream = "http://127.0.0.1:3000"
            listen = "[::1]:7412"
            admin = "127.0.0.1:7413"
            policy = "api"
            connect_timeout = "2s"
            upstream_timeout = "30s"
            client_timeout = "10s"
            drain_for = "0"
            max_connections = 512
        "#;
        let expected = ProxySettings {
            upstream: Some("http://127.0.0.1:3000".to_owned()),
            listen: Some("[::1]:7412".to_owned()),
            admin: Some("127.0.0.1:7413".to_owned()),
            policy: Some("api".to_owned()),
            connect_timeout: Some(Duration::from_secs(2)),
            upstream_timeout: Some(Duration::from_secs(30)),
            client_timeout: Some(Duration::from_secs(10)),
            drain_for: Some(Duration::ZERO),
            max_connections: Some(512),
        };
        assert_eq!(parse(text).unwrap().proxy, expected);
        assert_eq!(parse("").unwrap().proxy, ProxySettings::default());
    }
}
