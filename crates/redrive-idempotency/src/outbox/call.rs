//! A call for the outbox: what is sent, under which key, in which order. And the form in which the store keeps it.

use redrive::HttpSpec;
use redrive_store::NewItem;
use serde_json::{Value, json};

use super::OutboxError;
use crate::client::{Key, framed};

const KEY: &str = "idempotency-key";

/// Headers that say who asks or how the asking is followed, and not what is asked: they may change from one try to the next.
const NOT_CONTENT: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "date",
    "user-agent",
    "traceparent",
    "tracestate",
    "baggage",
    "x-request-id",
    KEY,
];

/// Something to be sent.
///
/// ```
/// use redrive_idempotency::outbox::Call;
///
/// let call = Call::post("https://api.example.com/v1/bookmarks")
///     .header("authorization", "Bearer …")
///     .json(&serde_json::json!({"url": "https://example.com/"}));
/// assert_eq!(call.spec().method, "POST");
/// ```
#[derive(Debug, Clone)]
pub struct Call {
    spec: HttpSpec,
    key: Option<Key>,
    lane: Option<String>,
}

impl Call {
    /// A call as it stands. A key among its headers is the call's own.
    pub fn new(spec: HttpSpec) -> Call {
        Call { spec, key: None, lane: None }
    }

    /// A POST without headers and body.
    pub fn post(url: impl Into<String>) -> Call {
        Call::new(HttpSpec::new("POST", url))
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Call {
        self.spec.headers.push((name.into(), value.into()));
        self
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Call {
        self.spec.body = Some(body.into());
        self
    }

    /// With this JSON as its body, and the header that says so.
    #[must_use]
    pub fn json(self, body: &Value) -> Call {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Under this key. Without one it is derived from the call: method, address, body and headers, but not from those that say who
    /// asks.
    #[must_use]
    pub fn key(mut self, key: Key) -> Call {
        self.key = Some(key);
        self
    }

    /// In order with everything else of that lane. Without one it is that of the far side: scheme, host and port.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Call {
        self.lane = Some(lane.into());
        self
    }

    /// What is sent.
    pub fn spec(&self) -> &HttpSpec {
        &self.spec
    }

    /// As the store takes it; what cannot be sent now cannot be sent later.
    pub(super) fn into_item(mut self, save: Option<&str>) -> Result<NewItem, OutboxError> {
        let far_side = self.spec.far_side()?;
        let own = self.spec.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(KEY));
        let own = own.map(|(_, value)| Key::given(unquoted(value))).transpose()?;
        self.spec.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(KEY));
        let content = content(&self.spec);
        let key = self.key.or(own).unwrap_or_else(|| Key::from_content(&content));
        let call_hash =
            framed(&content).iter().fold(String::with_capacity(64), |hex, byte| hex + &format!("{byte:02x}"));
        let lane = self.lane.unwrap_or(far_side);
        Ok(NewItem { lane, key: key.into(), call: kept(&self.spec, save), call_hash })
    }
}

/// A header's value may be a quoted string of a structured field; the key is what is inside.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

/// What makes two calls the same wish.
fn content(spec: &HttpSpec) -> Vec<Vec<u8>> {
    let mut headers: Vec<String> = spec
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .filter(|(name, _)| !NOT_CONTENT.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    // In which order headers were given says nothing.
    headers.sort();
    let mut parts = vec![spec.method.clone().into_bytes(), spec.url.clone().into_bytes()];
    parts.push(headers.join("\n").into_bytes());
    parts.push(spec.body.clone().unwrap_or_default());
    parts
}

fn kept(spec: &HttpSpec, save: Option<&str>) -> Value {
    // What it writes is JSON.
    let call: Value = serde_json::from_slice(&spec.to_payload()).unwrap_or_default();
    match save {
        Some(save) => json!({"call": call, "save": save}),
        None => json!({"call": call}),
    }
}

/// The call that an item keeps.
pub(super) fn call_of(kept: &Value) -> Result<HttpSpec, OutboxError> {
    let call = kept.get("call").unwrap_or(&Value::Null);
    Ok(HttpSpec::from_payload(call.to_string().as_bytes())?)
}

/// The logical save that an item belongs to.
pub(super) fn save_of(kept: &Value) -> Option<&str> {
    kept.get("save").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(call: Call) -> NewItem {
        call.into_item(None).unwrap()
    }

    /// R-I7: the same wish has the same key, whoever asks with whichever token, and another wish has another.
    #[test]
    fn the_key_is_that_of_the_content() {
        let call = || Call::post("http://127.0.0.1:9/a").header("X-Tenant", "t1").body("{}");
        let first = item(call().header("Authorization", "Bearer one"));
        let again = item(call().header("authorization", "Bearer two").header("traceparent", "00-1"));
        assert_eq!((&first.key, &first.call_hash), (&again.key, &again.call_hash));
        assert_eq!((first.lane.as_str(), first.key.len()), ("http://127.0.0.1:9", 36));
        for other in [
            call().body("{ }"),
            call().header("x-tenant", "t2"),
            Call { spec: HttpSpec { method: "PUT".into(), ..call().spec }, ..call() },
            Call { spec: HttpSpec { url: "http://127.0.0.1:9/b".into(), ..call().spec }, ..call() },
        ] {
            assert_ne!(item(other).key, first.key);
        }
    }

    /// R-I7: a key that is given is sent as it is, whether beside the call or among its headers.
    #[test]
    fn a_given_key_stays() {
        let call = Call::post("http://127.0.0.1:9/a").header("Idempotency-Key", "\"order-7\"");
        let with_header = item(call.clone());
        assert_eq!(with_header.key, "order-7");
        assert!(!with_header.call.to_string().contains("order-7"), "the header is set when it is sent");
        assert_eq!(item(call.key(Key::given("order-8").unwrap())).key, "order-8");
        let bad = Call::post("http://127.0.0.1:9/a").header("idempotency-key", "two words");
        assert!(matches!(bad.into_item(None), Err(OutboxError::Key(_))));
    }
}
