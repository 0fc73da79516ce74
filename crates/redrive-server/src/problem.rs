//! What a client is told when its request is not done: application/problem+json (RFC 9457) with a code that never changes, in
//! English or Japanese, and no insides: no path, no SQL, no word of a library.
//!
//! A handler only says which problem it is. Its words are put in where the request is known: at the gate of its route, so that the
//! idempotency layer keeps them as they were told, or at the very end.

mod code;
mod from;

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use redrive_idempotency::REDRIVE_IDEMPOTENCY;
use redrive_policy::{Catalog, Lang};
use schemars::JsonSchema;
use serde::Serialize;

pub use code::Code;

/// The media type of problems.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// The most characters of a value that a problem repeats.
const REPEATED: usize = 200;

static CATALOG: LazyLock<Option<Catalog>> = LazyLock::new(|| {
    Catalog::load(include_str!("../messages/en.toml"), include_str!("../messages/ja.toml")).ok()
});

/// A text of this crate.
pub(crate) fn text(lang: Lang, key: &str, values: &[(&str, &dyn Display)]) -> String {
    CATALOG.as_ref().map_or_else(|| key.to_owned(), |catalog| catalog.text(lang, key, values))
}

/// A problem, as it is told.
///
/// ```
/// use redrive_server::{Code, Problem};
/// let problem = Problem::new(Code::NotFound, "thing.unknown").with("id", "job_17");
/// let told = problem.told(redrive_policy::Lang::En);
/// assert_eq!((told.status, &*told.code), (404, "not-found"));
/// assert!(told.detail.contains("job_17"));
/// ```
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    said: Option<Box<Said>>,
}

#[derive(Debug, Clone, Default)]
struct Said {
    words: Words,
    values: Vec<(&'static str, String)>,
    field: Option<String>,
    retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
enum Words {
    /// Those of the code.
    #[default]
    Code,
    /// Those under this key of the catalogue.
    Key(&'static str),
    /// Somebody else's, in both languages.
    Both(Box<[String; 2]>),
}

impl Problem {
    /// A problem with the words that stand in the catalogue (`messages/en.toml` and `ja.toml`) under this key.
    pub fn new(code: Code, key: &'static str) -> Problem {
        let mut problem = Problem::of(code);
        problem.said_mut().words = Words::Key(key);
        problem
    }

    /// A problem with the words of its code.
    pub const fn of(code: Code) -> Problem {
        Problem { code, said: None }
    }

    /// A problem with words from elsewhere, which are there in every language.
    pub fn in_words(code: Code, words: impl Fn(Lang) -> String) -> Problem {
        let mut problem = Problem::of(code);
        problem.said_mut().words = Words::Both(Box::new([words(Lang::En), words(Lang::Ja)]));
        problem
    }

    /// Puts a value where its words have `{name}`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Problem {
        let clean = value.to_string().chars().filter(|c| !c.is_control()).take(REPEATED).collect();
        self.said_mut().values.push((name, clean));
        self
    }

    /// Says which field of the body, or which parameter, it is about: `jobs[3].queue`.
    #[must_use]
    pub fn at(mut self, field: impl Display) -> Problem {
        let clean = field.to_string().chars().filter(|c| !c.is_control()).take(REPEATED).collect();
        self.said_mut().field = Some(clean);
        self
    }

    /// Says when it is worth asking again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Problem {
        self.said_mut().retry_after = Some(after);
        self
    }

    fn said_mut(&mut self) -> &mut Said {
        self.said.get_or_insert_default()
    }

    /// The field that it is about.
    pub fn field(&self) -> Option<&str> {
        self.said.as_ref()?.field.as_deref()
    }

    /// What is told, in this language; for an answer of its own, or as one of many.
    pub fn told(&self, lang: Lang) -> Told {
        let code = self.code.name();
        let said = self.said.as_deref();
        let values = said.map(|said| said.values.as_slice()).unwrap_or_default();
        let values: Vec<(&str, &dyn Display)> =
            values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
        let detail = match said.map(|said| &said.words) {
            None | Some(Words::Code) => text(lang, &format!("code.{code}.detail"), &values),
            Some(Words::Key(key)) => text(lang, key, &values),
            Some(Words::Both(words)) => match lang {
                Lang::En => words[0].clone(),
                Lang::Ja => words[1].clone(),
            },
        };
        Told {
            kind: format!("urn:redrive:problem:{code}"),
            title: text(lang, &format!("code.{code}.title"), &[]),
            status: self.code.status().as_u16(),
            detail,
            code: Cow::Borrowed(code),
            field: self.field().map(str::to_owned),
            instance: None,
        }
    }

    /// The whole answer, in this language, to the request of this id.
    pub(crate) fn response(&self, lang: Lang, request_id: Option<&str>) -> Response {
        let mut told = self.told(lang);
        told.instance = request_id.map(|id| format!("urn:redrive:request:{id}"));
        // Texts and numbers always become JSON.
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(lang.name()));
        let after = self.said.as_ref().and_then(|said| said.retry_after).or(self.code.retry_after());
        if let Some(after) = after {
            let seconds = after.as_millis().div_ceil(1_000).max(1);
            headers.insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        if self.code == Code::OutcomeUnknown {
            // Its key must not be free again: nobody knows whether it was done.
            headers.insert(REDRIVE_IDEMPOTENCY, HeaderValue::from_static("unknown"));
        }
        response
    }
}

/// A problem in the words of RFC 9457, with two members of our own: `code` and `field`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Told {
    /// A URN that ends in the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, in a few words.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What is wrong and what to do about it.
    pub detail: String,
    /// The kind of problem, for programs.
    pub code: Cow<'static, str>,
    /// The field of the body, or the parameter, that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The request, as the server's log names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// Without words yet: see [`worded`].
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.code.status();
        response.extensions_mut().insert(self);
        response
    }
}

/// Puts the words into an answer that is a problem; others stay as they are.
pub(crate) fn worded(mut response: Response, lang: Lang, request_id: Option<&str>) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let mut told = problem.response(lang, request_id);
    // Such as Allow.
    for (name, value) in response.headers() {
        if !told.headers().contains_key(name) && name != http::header::CONTENT_LENGTH {
            told.headers_mut().append(name, value.clone());
        }
    }
    told
}

#[cfg(test)]
mod tests;
