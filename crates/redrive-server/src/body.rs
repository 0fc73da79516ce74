//! A body as JSON of a known shape, or a problem that says where it is not.

use axum::extract::{FromRequest, Request};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use crate::Server;
use crate::problem::{Code, Problem};

/// The body of a request, read as JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Server> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Body<T>, Problem> {
        let limit = server.settings().max_body;
        let bytes = Limited::new(request.into_body(), limit).collect().await.map_err(|error| {
            if error.downcast_ref::<http_body_util::LengthLimitError>().is_some() {
                return Problem::new(Code::TooLarge, format!("a body may have {limit} bytes"));
            }
            Problem::new(Code::Invalid, "the body broke off")
        })?;
        let bytes = bytes.to_bytes();
        let mut read = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut read)
            .map_err(|error| Problem::new(Code::Invalid, format!("the body: {error}")))?;
        read.end().map_err(|error| Problem::new(Code::Invalid, format!("the body: {error}")))?;
        Ok(Body(value))
    }
}
