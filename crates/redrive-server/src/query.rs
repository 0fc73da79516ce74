//! The parameters of a request's query, or a problem that names the one that does not fit.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::fault::fault;
use crate::problem::{Code, Problem};

/// The parameters of the query. A shape says `deny_unknown_fields`, so that a slip of the fingers is no silent default.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        // No text of ours holds it, and databases stumble over it.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(Problem::new(Code::Invalid, "query.control"));
        }
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|read| Query(read.0)).map_err(|rejection| told(&rejection.body_text()))
    }
}

/// The reader says `Failed to …: NAME: what is wrong`.
fn told(words: &str) -> Problem {
    let words = words.split_once(": ").map_or(words, |(_, rest)| rest);
    match words.split_once(": ") {
        Some((name, what)) if !name.contains(' ') => fault(name, what),
        _ => fault("", words),
    }
}

#[cfg(test)]
mod tests {
    use redrive_policy::Lang;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Asked {
        limit: Option<u32>,
        queue: Option<String>,
        all: Option<bool>,
    }

    /// Issue 8, API: a parameter that does not fit is named, in our own words.
    #[test]
    fn a_bad_parameter_is_named() {
        let check = |query: &str, field: &str, says: &str| {
            let uri = format!("/v1/jobs?{query}").parse().unwrap();
            let rejection = axum::extract::Query::<Asked>::try_from_uri(&uri).unwrap_err();
            let problem = told(&rejection.body_text());
            assert_eq!(problem.field(), Some(field), "{}", rejection.body_text());
            let detail = problem.told(Lang::En).detail;
            assert!(detail.contains(says) && !detail.contains("eserialize"), "{detail}");
        };
        check("limit=many", "limit", "whole number");
        check("limit=-1", "limit", "whole number");
        check("limit=99999999999", "limit", "whole number");
        check("queu=a", "queu", "did you mean queue?");
        check("queue=a&queue=b", "queue", "twice");
        check("all=perhaps", "all", "true or false");
    }
}
