//! Where secrets stand: in variables, headers, addresses and payloads.
//!
//! By place and by name. When in doubt a value counts as a secret: a message that lost a harmless word is better than one that kept
//! a password.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::Regex;
use serde_json::Value;

use super::{MOST, is_secret_field};
use crate::redact::secrets_in_text;

/// How much of a payload's text is looked at for shapes; names are looked at in all of it.
const SHAPES_WITHIN: usize = 64 * 1024;
/// How deep texts that are JSON themselves are looked into.
const DEEPEST: usize = 4;
/// A part of an address that is shorter is a word of a page.
const SHORTEST_RANDOM: usize = 16;

/// Headers that say how to talk, and not who talks.
const PLAIN_HEADERS: [&str; 24] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "idempotency-key",
    "if-modified-since",
    "if-unmodified-since",
    "origin",
    "pragma",
    "prefer",
    "range",
    "te",
    "traceparent",
    "user-agent",
    "x-request-id",
];

/// An address inside a text, up to what ends it.
static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>`\\]+"#).ok());

/// Whether a header says how to talk and not who talks; the value of any other may be a secret.
///
/// ```
/// use redrive_policy::is_plain_header;
/// assert!(is_plain_header("Content-Type") && !is_plain_header("X-Acme-Ticket"));
/// ```
pub fn is_plain_header(name: &str) -> bool {
    PLAIN_HEADERS.iter().any(|plain| plain.eq_ignore_ascii_case(name))
}

/// Whether a part of an address looks as if chance had made it: long, with a word of letters and digits.
///
/// ```
/// use redrive_policy::looks_random;
/// assert!(looks_random("B8dGx91kQzWm27Lp") && !looks_random("report-2026-11-16.csv"));
/// ```
pub fn looks_random(part: &str) -> bool {
    let is_mixed = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit()) && word.contains(|c: char| c.is_alphabetic())
    };
    part.len() >= SHORTEST_RANDOM
        && !part.contains(char::is_whitespace)
        && part.split(['-', '_', '.', ':', '~', '%', '+', '=']).any(is_mixed)
}

/// A variable: its value, when its name says that it holds a secret, and what is secret in an address.
pub(super) fn in_variable(name: &str, value: &str, values: &mut Vec<String>) {
    if is_secret_variable(name) {
        values.push(value.to_owned());
    }
    in_addresses(value, values);
}

/// A header: its value, and what follows the scheme of an authorization.
pub(super) fn in_header(name: &str, value: &str, values: &mut Vec<String>) {
    if !is_plain_header(name) {
        values.push(value.to_owned());
        values.extend(credentials(value));
    }
}

/// What follows the scheme of an authorization, and the password inside if it is a basic one.
fn credentials(value: &str) -> Vec<String> {
    let Some((_, credential)) = value.trim().split_once(' ') else { return Vec::new() };
    let credential = credential.trim();
    let decoded = STANDARD.decode(credential).or_else(|_| STANDARD_NO_PAD.decode(credential));
    let decoded = decoded.or_else(|_| URL_SAFE_NO_PAD.decode(credential)).ok();
    let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let password = pair.and_then(|pair| pair.split_once(':').map(|(_, password)| password.to_owned()));
    [Some(credential.to_owned()), password].into_iter().flatten().collect()
}

/// What is secret in an address: who asks, what looks as if chance had made it, and what the query calls so.
pub(super) fn in_address(url: &str, values: &mut Vec<String>) {
    let Some((_, rest)) = url.split_once("://") else { return };
    // A password may hold all signs but spaces, so that the last at-sign ends it; one in the query is none of it.
    let before_query = rest.split(['?', '#']).next().unwrap_or_default();
    let (who, place) = match before_query.rsplit_once('@') {
        Some((who, _)) => (Some(who), &rest[who.len() + 1..]),
        None => match rest.rsplit_once('@') {
            Some((who, place)) if who.contains(':') && !who.contains('/') => (Some(who), place),
            _ => (None, rest),
        },
    };
    match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
        Some((user, "")) => both(user, values),
        Some((user, password)) => {
            both(password, values);
            if looks_random(user) {
                both(user, values);
            }
        }
        None => {}
    }
    let (page, question) = place.split_once(['?', '#']).unwrap_or((place, ""));
    for part in page.split('/').skip(1).filter(|part| looks_random(part)) {
        both(part, values);
    }
    for pair in question.split(['&', '#', '?']) {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        if is_secret_parameter(name) || looks_random(value) {
            both(value, values);
        }
    }
}

/// All of an address but whom it leads to: as a whole and part by part.
pub(super) fn in_webhook(url: &str, values: &mut Vec<String>) {
    in_address(url, values);
    let Some((_, rest)) = url.split_once("://") else { return };
    let Some(page) = rest.find(['/', '?', '#']).map(|at| &rest[at..]) else { return };
    values.extend([url.to_owned(), page.to_owned()]);
    for part in page.split(['/', '?', '#', '&']) {
        both(part.split_once('=').map_or(part, |(_, value)| value), values);
    }
}

/// A part as it is written, and what it stands for.
fn both(part: &str, values: &mut Vec<String>) {
    if part.is_empty() {
        return;
    }
    values.push(part.to_owned());
    if part.contains('%') {
        values.push(decoded(part));
    }
}

/// What percent signs and digits stand for.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%');
        let read = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = read.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is secret in the addresses inside a text.
fn in_addresses(text: &str, values: &mut Vec<String>) {
    if !text.contains("://") {
        return;
    }
    in_address(text.trim(), values);
    for address in ADDRESS.iter().flat_map(|pattern| pattern.find_iter(text)) {
        in_address(address.as_str(), values);
    }
}

/// What is secret in a text: by shape, and in addresses.
fn in_text(text: &str, values: &mut Vec<String>) {
    in_addresses(text, values);
    for secret in secrets_in_text(text) {
        values.extend(credentials(&secret));
        values.push(secret);
    }
}

/// What is secret in a payload.
pub(super) fn in_payload(payload: &[u8], values: &mut Vec<String>) {
    let most = values.len() + MOST;
    let mut walk = Walk { values, most, shapes_left: SHAPES_WITHIN };
    match serde_json::from_slice::<Value>(payload) {
        Ok(value) => walk.value(&value, 0),
        Err(_) => walk.text(&String::from_utf8_lossy(payload)),
    }
}

struct Walk<'a> {
    values: &'a mut Vec<String>,
    most: usize,
    shapes_left: usize,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, depth: usize) {
        if self.values.len() >= self.most {
            return;
        }
        match value {
            Value::String(text) => self.words(text, depth),
            Value::Array(values) => {
                self.options(values);
                for value in values {
                    self.value(value, depth);
                }
            }
            Value::Object(fields) => {
                // A list of names and values has the name in a field of its own.
                if let (Some(Value::String(name)), Some(value)) = (fields.get("name"), fields.get("value"))
                    && (is_secret_field(name) || is_secret_variable(name))
                {
                    self.everything(value);
                }
                for (name, value) in fields {
                    self.field(name, value, depth);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&mut self, name: &str, value: &Value, depth: usize) {
        if is_secret_field(name) {
            return self.everything(value);
        }
        match (name.to_ascii_lowercase().as_str(), value) {
            ("headers", Value::Object(headers)) => {
                for (name, value) in headers {
                    value.as_str().into_iter().for_each(|value| in_header(name, value, self.values));
                }
            }
            ("headers", Value::Array(headers)) => {
                for pair in headers.iter().filter_map(Value::as_array) {
                    if let [Value::String(name), Value::String(value)] = pair.as_slice() {
                        in_header(name, value, self.values);
                    }
                }
            }
            ("env" | "environment", Value::Object(variables)) => {
                for (name, value) in variables {
                    value.as_str().into_iter().for_each(|value| in_variable(name, value, self.values));
                }
            }
            _ => {}
        }
        self.value(value, depth);
    }

    /// Every text and number that stands under a name that speaks of a secret.
    fn everything(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.values.extend(credentials(text));
                self.values.push(text.clone());
            }
            Value::Number(number) => self.values.push(number.to_string()),
            Value::Array(values) => values.iter().for_each(|value| self.everything(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.everything(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Words of a command of which one says that the next is a secret: `--password X`, `-u user:X`.
    fn options(&mut self, words: &[Value]) {
        for pair in words.windows(2) {
            let [Value::String(option), Value::String(value)] = pair else { continue };
            let name = option.trim_start_matches('-');
            if option.starts_with('-') && !option.contains('=') && is_secret_field(name) {
                self.values.push(value.clone());
            }
            if matches!(option.as_str(), "-u" | "--user" | "--proxy-user")
                && let Some((_, password)) = value.split_once(':')
            {
                self.values.push(password.to_owned());
            }
        }
    }

    fn words(&mut self, text: &str, depth: usize) {
        // What is JSON inside a text is a payload of its own.
        if depth < DEEPEST
            && text.trim_start().starts_with(['{', '['])
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            self.value(&value, depth + 1);
        }
        self.text(text);
    }

    fn text(&mut self, text: &str) {
        let looked_at = &text[..text.floor_char_boundary(self.shapes_left)];
        self.shapes_left -= looked_at.len();
        in_text(looked_at, self.values);
    }
}

/// Whether a variable's name says that it holds a secret, and not where one is.
fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(['_', '-', '.']).collect();
    let is_place = ["FILE", "PATH", "DIR", "HOME", "SOCK", "SOCKET", "ID", "NAME", "URL", "TTL", "TIMEOUT"]
        .contains(words.last().unwrap_or(&""));
    let telling = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "COOKIE"];
    let alone = ["KEY", "PWD", "PASS", "AUTH", "JWT", "BEARER", "PAT", "SALT", "PIN"];
    let is_secret =
        telling.iter().any(|word| name.contains(word)) || words.iter().any(|word| alone.contains(word));
    // The working directory is called PWD, too.
    is_secret && !is_place && name != "PWD" && name != "OLDPWD"
}

/// Whether a parameter of an address says that it holds a secret.
fn is_secret_parameter(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let telling = ["token", "secret", "key", "sig", "password", "passwd", "pwd", "auth", "code", "session"];
    telling.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KnownSecrets;

    const SECRET: &str = "Xk2-91Qz";

    /// R-D7: what a payload holds in a place of secrets is blanked where it is repeated, and what stands beside it stays.
    #[test]
    fn a_payload_tells_what_is_secret_in_it() {
        for payload in [
            r#"{"password":"Xk2-91Qz"}"#,
            r#"{"deep":[{"client_secret":{"value":["Xk2-91Qz"]}}]}"#,
            r#"{"headers":[["X-Acme-Ticket","Xk2-91Qz"]]}"#,
            r#"{"headers":{"Authorization":"Acme Xk2-91Qz"}}"#,
            r#"{"headers":[["Authorization","Basic YWRhOlhrMi05MVF6"]]}"#,
            r#"{"env":{"DJANGO_KEY":"Xk2-91Qz"}}"#,
            r#"{"variables":[{"name":"DJANGO_KEY","value":"Xk2-91Qz"}]}"#,
            r#"{"argv":["mysql","--password","Xk2-91Qz"]}"#,
            r#"{"argv":["mysql","--password=Xk2-91Qz"]}"#,
            r#"{"argv":["curl","-u","ada:Xk2-91Qz"]}"#,
            r#"{"argv":["curl","-H","Authorization: Bearer Xk2-91Qz"]}"#,
            r#"{"argv":["sh","-c","curl -H 'Authorization: Bearer Xk2-91Qz' https://example.com"]}"#,
            r#"{"argv":["sh","-c","curl -u ada:Xk2-91Qz https://example.com"]}"#,
            r#"{"argv":["sh","-c","psql postgres://ada:Xk2-91Qz@db/x -c 'select 1'"]}"#,
            r#"{"argv":["sh","-c","API_TOKEN=Xk2-91Qz deploy"]}"#,
            r#"{"url":"https://example.com/a?access_token=Xk2-91Qz&b=1"}"#,
            r#"{"url":"https://example.com/a#token=Xk2-91Qz"}"#,
            r#"{"url":"https://Xk2-91Qz@example.com/a"}"#,
            r#"{"body":"{\"password\":\"Xk2-91Qz\"}"}"#,
            "password=Xk2-91Qz, and not JSON",
        ] {
            let known = KnownSecrets::of_payload(payload.as_bytes());
            let said = format!("example.com said: {SECRET} is wrong");
            assert_eq!(known.mask(&said), "example.com said: [redacted] is wrong", "{payload}");
        }
    }

    /// R-D7: what is no secret is not blanked.
    #[test]
    fn a_harmless_payload_blanks_nothing() {
        let payload = r#"{"url":"https://example.com/orders/report-2026-11-16.csv?page=orders-2026",
            "headers":[["Content-Type","application/json"],["Idempotency-Key","order-17-paid"]],
            "env":{"REGION":"eu-central-1","TLS_KEY_FILE":"/etc/ssl/server.key"},
            "argv":["backup","--target","/var/backups/all","--retries","30000000"],
            "customer":"ada-lovelace","password_tries":3,"at":"2026-11-16T06:00:00Z"}"#;
        let known = KnownSecrets::of_payload(payload.as_bytes());
        let said = "example.com/orders/report-2026-11-16.csv?page=orders-2026 application/json order-17-paid eu-central-1 \
            /etc/ssl/server.key /var/backups/all 30000000 ada-lovelace 2026-11-16T06:00:00Z";
        assert_eq!(known.mask(said), said);
    }

    /// R-D7: what chance has made in an address is blanked, also when the answer has it in other signs.
    #[test]
    fn an_address_tells_what_is_secret_in_it() {
        for (url, said) in [
            ("https://example.com/hooks/B8dGx91kQzWm27Lp/go", "no B8dGx91kQzWm27Lp here"),
            ("https://example.com/?x=B8dGx91kQzWm27Lp", "no B8dGx91kQzWm27Lp here"),
            ("https://ada:p%40ss%2Fword@example.com/", "no p@ss/word here"),
            ("https://ada:pass?word9@example.com/", "no pass?word9 here"),
        ] {
            let known = KnownSecrets::of_call(url, []);
            assert_eq!(known.mask(said), "no [redacted] here", "{url}");
        }
        assert!(KnownSecrets::of_call("https://example.com/orders/17?user=ada@example.com", []).is_empty());
    }

    /// R-D7: a payload without end is no work without end.
    #[test]
    fn a_huge_payload_is_bounded() {
        let many: Vec<Value> =
            (0..100_000).map(|n| serde_json::json!({ "token": format!("token-{n:08}") })).collect();
        let known = KnownSecrets::of_payload(Value::from(many).to_string().as_bytes());
        assert_eq!(known.mask("token-00000007"), "[redacted]");
        let batch: Vec<String> = (0..3_000).map(|n| format!(r#"{{"password":"of-job-{n:08}"}}"#)).collect();
        let known = KnownSecrets::of_payloads(batch.iter().map(String::as_bytes));
        assert_eq!(known.mask("of-job-00000000 of-job-00002999"), "[redacted] [redacted]");
        let text = format!("{}password=Xk2-91Qz", "é".repeat(SHAPES_WITHIN));
        assert!(KnownSecrets::of_payload(text.as_bytes()).is_empty());
    }
}
