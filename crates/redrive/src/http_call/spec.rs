//! An HTTP call as a job holds it: what to send and where. What we add on the way is not part of it.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use redrive_policy::{KnownSecrets, looks_random};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::{ATTEMPT, FENCE, JOB_ID};
use crate::packed::Packed;

/// Headers that belong to the connection and not to the call: we or the line set them, and a wrong one breaks it.
const NOT_YOURS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    ATTEMPT,
    JOB_ID,
    FENCE,
];

/// A call. Its `Debug` shows neither the values of headers nor the body nor the query.
///
/// ```
/// use redrive::HttpSpec;
///
/// let spec = HttpSpec {
///     headers: vec![("content-type".into(), "application/json".into())],
///     body: Some(b"{}".to_vec()),
///     ..HttpSpec::new("POST", "https://api.example.com/orders")
/// };
/// assert_eq!(HttpSpec::from_payload(&spec.to_payload()).unwrap(), spec);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// `GET`, `POST`, or any other; not CONNECT.
    pub method: String,
    /// Where to; http or https.
    pub url: String,
    /// Names and values, in this order; a name may come twice.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Option<Vec<u8>>,
}

/// Why a payload is not a call.
#[derive(Debug, thiserror::Error)]
pub enum BadCall {
    /// It has another form.
    #[error("this is not an HTTP call: {0}; the form is {{\"method\": \"POST\", \"url\": \"https://…\"}}")]
    Form(#[source] serde_json::Error),
    /// There is no such method, or it is not one for a job.
    #[error("{0:?} is not a method that can be called")]
    Method(String),
    /// It is not an address.
    #[error("this is not an http or https address: {0}")]
    Url(String),
    /// A header's name is not one.
    #[error("{0:?} is not a header's name")]
    HeaderName(String),
    /// A header's value cannot be sent.
    #[error("the value of header {0} holds a character that cannot be sent")]
    HeaderValue(String),
    /// A header is not the caller's to set.
    #[error("the header {0} is set by redrive or by the connection; leave it out")]
    NotYours(String),
    /// A body that claims to be base64 is not.
    #[error("the body is not base64")]
    Base64(#[source] base64::DecodeError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    method: String,
    url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Packed>,
}

/// A call that was found to be one.
pub(super) struct Checked {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
}

impl HttpSpec {
    /// A call without headers and body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> HttpSpec {
        HttpSpec { method: method.into(), url: url.into(), headers: Vec::new(), body: None }
    }

    /// The call as JSON. The body is plain text, or `{"base64": "…"}` when it is not UTF-8.
    pub fn to_payload(&self) -> Vec<u8> {
        let wire = Wire {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body: self.body.clone().map(Packed::pack),
        };
        // Text, lists and absent fields: there is nothing in it that could fail.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Reads such JSON, and says what is wrong before anything is stored or sent.
    ///
    /// ```
    /// let error = redrive::HttpSpec::from_payload(br#"{"method":"GET","url":"ftp://example.com/"}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "this is not an http or https address: its scheme is ftp");
    /// ```
    pub fn from_payload(payload: &[u8]) -> Result<HttpSpec, BadCall> {
        let wire: Wire = serde_json::from_slice(payload).map_err(BadCall::Form)?;
        let body = wire.body.map(Packed::unpack).transpose().map_err(BadCall::Base64)?;
        let spec = HttpSpec { method: wire.method, url: wire.url, headers: wire.headers, body };
        spec.check()?;
        Ok(spec)
    }

    /// Whether it can be sent; the same that [`from_payload`](HttpSpec::from_payload) asks.
    pub fn validate(&self) -> Result<(), BadCall> {
        self.check().map(drop)
    }

    /// The address as it may be shown: which page of whom, but neither who asks nor what. Text that is no address is not shown.
    ///
    /// ```
    /// let spec = redrive::HttpSpec::new("GET", "https://ada:secret@example.com/a?token=secret");
    /// assert_eq!(spec.place(), "https://example.com/a?…");
    /// ```
    pub fn place(&self) -> String {
        Url::parse(&self.url).map_or_else(|_| "[not an address]".to_owned(), |url| place(&url))
    }

    /// Whom it is sent to: scheme, host and port.
    ///
    /// ```
    /// let spec = redrive::HttpSpec::new("GET", "https://ada:secret@example.com/a");
    /// assert_eq!(spec.far_side().unwrap(), "https://example.com:443");
    /// ```
    pub fn far_side(&self) -> Result<String, BadCall> {
        let url = self.check()?.url;
        let port = url.port_or_known_default().unwrap_or_default();
        Ok(format!("{}://{}:{port}", url.scheme(), url.host_str().unwrap_or_default()))
    }

    pub(super) fn check(&self) -> Result<Checked, BadCall> {
        let method = Method::from_bytes(self.method.as_bytes()).ok();
        // CONNECT asks for a tunnel and TRACE sends our own headers back: neither is work.
        let method = method.filter(|method| !matches!(*method, Method::CONNECT | Method::TRACE));
        let method = method.ok_or_else(|| BadCall::Method(self.method.clone()))?;
        // The address is not repeated in the error: it may hold a password.
        let url = Url::parse(&self.url).map_err(|error| BadCall::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadCall::Url(format!("its scheme is {}", url.scheme())));
        }
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 5);
        for (name, value) in &self.headers {
            let known = HeaderName::from_bytes(name.as_bytes());
            let known = known.map_err(|_| BadCall::HeaderName(name.clone()))?;
            if NOT_YOURS.contains(&known.as_str()) {
                return Err(BadCall::NotYours(name.clone()));
            }
            let value = HeaderValue::from_bytes(value.as_bytes());
            headers.append(known, value.map_err(|_| BadCall::HeaderValue(name.clone()))?);
        }
        Ok(Checked { method, url, headers })
    }
}

impl HttpSpec {
    /// What it asks with: the values of headers that are not plain, and what is secret in the address.
    pub(super) fn secrets(&self) -> KnownSecrets {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        KnownSecrets::of_call(&self.url, headers)
    }
}

impl fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpSpec")
            .field("method", &self.method)
            .field("url", &self.place())
            .field("headers", &names)
            .field("body_bytes", &self.body.as_ref().map(Vec::len))
            .finish()
    }
}

/// An address as it may be shown: who and which page, but neither who asks nor what. What looks as if chance had made it may be what
/// opens the door.
pub(super) fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?…" } else { "" };
    let host = url.host_str().unwrap_or_default();
    let page: Vec<&str> =
        url.path().split('/').map(|part| if looks_random(part) { "…" } else { part }).collect();
    crate::secrets::redact(&format!("{}://{host}{port}{}{query}", url.scheme(), page.join("/")))
}

/// The address of a webhook as it may be shown: whom it leads to, since the rest is often the secret itself.
///
/// ```
/// assert_eq!(redrive::shown_webhook("https://example.com:8443/in/Xk2-91Qz?a=1"), "https://example.com:8443/…");
/// ```
pub fn shown_webhook(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return "[not an address]".to_owned() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}/…", url.scheme(), url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D7: a job's inputs are kept verbatim, and shown to nobody by accident.
    #[test]
    fn a_call_comes_back_byte_for_byte_and_shows_no_secret() {
        let spec = HttpSpec {
            headers: vec![("X-Api".into(), "hunter2".into()), ("x-api".into(), "é".into())],
            body: Some(b"hunter2 \xff\0".to_vec()),
            ..HttpSpec::new("PROPFIND", "http://u:hunter2@[::1]:81/a?q=hunter2#x")
        };
        assert_eq!(HttpSpec::from_payload(&spec.to_payload()).unwrap(), spec);
        let shown = format!("{spec:?}");
        assert!(shown.contains("http://[::1]:81/a?…") && !shown.contains("hunter2"), "{shown}");
    }

    /// R-P14: what is no call says what is wrong with it, without repeating a secret.
    #[test]
    fn a_bad_call_says_what_is_wrong() {
        let url = "https://example.com/";
        for (payload, says) in [
            ("{}".to_owned(), "missing field `method`"),
            (format!(r#"{{"method":"GET","url":"{url}","timeout":5}}"#), "unknown field `timeout`"),
            (format!(r#"{{"method":"G T","url":"{url}"}}"#), "\"G T\" is not a method"),
            (format!(r#"{{"method":"CONNECT","url":"{url}"}}"#), "\"CONNECT\" is not a method"),
            (
                r#"{"method":"GET","url":"/relative?token=hunter2"}"#.to_owned(),
                "not an http or https address",
            ),
            (r#"{"method":"GET","url":"file:///etc/passwd"}"#.to_owned(), "its scheme is file"),
            (r#"{"method":"GET","url":"http://"}"#.to_owned(), "not an http or https address: empty host"),
            (
                format!(r#"{{"method":"GET","url":"{url}","headers":[["a b","c"]]}}"#),
                "\"a b\" is not a header",
            ),
            (
                format!(r#"{{"method":"GET","url":"{url}","headers":[["a","hunter2\n"]]}}"#),
                "value of header a",
            ),
            (format!(r#"{{"method":"GET","url":"{url}","headers":[["Host","x"]]}}"#), "Host is set by"),
            (
                format!(r#"{{"method":"GET","url":"{url}","headers":[["Content-Length","1"]]}}"#),
                "Content-Length is set by",
            ),
            (
                format!(r#"{{"method":"GET","url":"{url}","headers":[["redrive-fence","1"]]}}"#),
                "redrive-fence is set by",
            ),
            (format!(r#"{{"method":"GET","url":"{url}","body":{{"base64":"%"}}}}"#), "body is not base64"),
        ] {
            let error = HttpSpec::from_payload(payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{payload}: {error}");
        }
    }
}
