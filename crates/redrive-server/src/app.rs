//! One request from its head to its answer: its id, the front, the router, the headers that every answer carries.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use tower::ServiceExt;

use crate::problem::worded;
use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::{Server, api, front};

/// Nothing that we answer is to be kept, run, framed or told on.
const ALWAYS: [(HeaderName, HeaderValue); 4] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
];

/// What answers requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    server: Server,
    router: Router,
}

impl App {
    pub(crate) fn new(server: &Server) -> App {
        App { server: server.clone(), router: api::router(server) }
    }

    /// Answers one request.
    pub(crate) async fn answer(self, mut request: Request) -> Response {
        let id = RequestId::of(request.headers());
        let lang = redrive_idempotency::language(request.headers());
        request.extensions_mut().insert(id.clone());
        let answer = match front::admit(&self.server, &mut request).await {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                match self.router.oneshot(request).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                }
            }
            Err(problem) => problem.into_response(),
        };
        let mut answer = worded(answer, lang, Some(id.as_str()));
        let headers = answer.headers_mut();
        for (name, value) in ALWAYS {
            headers.entry(name).or_insert(value);
        }
        headers.insert(X_REQUEST_ID, id.0);
        answer
    }
}
