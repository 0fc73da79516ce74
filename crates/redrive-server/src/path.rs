//! What stands in a request's path, or a problem that says so.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::{Code, Problem};

/// The parameters of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let odd = || Problem::new(Code::Invalid, "path.odd");
        // No name of ours holds it, and databases stumble over it.
        if parts.uri.path().contains("%00") {
            return Err(odd());
        }
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|read| Path(read.0)).map_err(|_| odd())
    }
}
