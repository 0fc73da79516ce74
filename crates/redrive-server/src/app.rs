//! One request from its head to its answer: its id, the front, the router, the headers that every answer carries.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use tower::ServiceExt;

use crate::caller::Caller;
use crate::gate::Counted;
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

    /// The same with other routes than ours.
    #[cfg(test)]
    pub(crate) fn routing(server: &Server, router: Router) -> App {
        App { server: server.clone(), router }
    }

    /// Answers one request.
    pub(crate) async fn answer(self, mut request: Request) -> Response {
        let id = RequestId::of(request.headers());
        let lang = redrive_idempotency::language(request.headers());
        request.extensions_mut().insert(id.clone());
        // What was sent counts until it is answered.
        let weight = self.server.scale().weigh();
        let mut request = request.map(|body| weight.of(body));
        let answer = match front::admit(&self.server, &mut request).await {
            Ok(caller) => {
                let asked = Asked::of(&caller, &request);
                request.extensions_mut().insert(caller);
                match self.router.oneshot(request).await {
                    Ok(answer) => asked.told(&self.server, answer),
                    Err(never) => match never {},
                }
            }
            Err(problem) => problem.into_response(),
        };
        if answer.extensions().get::<Counted>().is_none() {
            self.server.meter().outside().begin().ends(answer.status());
        }
        let mut answer = worded(answer, lang, Some(id.as_str()));
        let unauthorized = answer.status() == StatusCode::UNAUTHORIZED;
        let headers = answer.headers_mut();
        if unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"redrive\""));
        }
        for (name, value) in ALWAYS {
            headers.entry(name).or_insert(value);
        }
        headers.insert(X_REQUEST_ID, id.0);
        drop(weight);
        answer
    }
}

/// What was asked, and by whom: kept for the case that it is refused.
struct Asked {
    who: String,
    method: Method,
    path: String,
}

impl Asked {
    fn of(caller: &Caller, request: &Request) -> Asked {
        let (who, method) = (caller.who.clone(), request.method().clone());
        Asked { who, method, path: request.uri().path().to_owned() }
    }

    /// The answer; that somebody was refused is written down.
    fn told(self, server: &Server, answer: Response) -> Response {
        if answer.status() == StatusCode::FORBIDDEN {
            front::refused(server, &self.who, self.method.as_str(), &self.path, None);
        }
        answer
    }
}
