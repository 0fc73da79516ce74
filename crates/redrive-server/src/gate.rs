//! The gate of a route, behind the front: whether the caller has its scope, then its idempotency key, then its handler; and the
//! words of a problem that comes back.
//!
//! One service around every handler. A request without a key is counted, and pays nothing else for keys.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http_body::Body as _;
use redrive::engine::Engine;
use redrive_idempotency::rules::{self, Guarded, KeyForm, OnUnknown, Rules};
use redrive_idempotency::{FreshProblem, IDEMPOTENCY_KEY, IdempotencyLayer, Idempotent, KeyOwner};
use tower::{Layer, Service};

use crate::api;
use crate::caller::Caller;
use crate::meter::RouteMeter;
use crate::problem::{Code, Problem, worded};
use crate::request_id::RequestId;
use crate::route::Need;

/// No problem of the keys has more bytes.
const MOST_OF_A_PROBLEM: usize = 64 * 1024;

/// What looks at the keys of a server: of every route whose gate asks it, whatever its method, by any key.
pub(crate) fn keys(engine: &Engine, max_request: usize) -> IdempotencyLayer {
    let rules = Rules { key: KeyForm::Any, max_request, ..Rules::default() };
    let reruns = Rules { unknown: OnUnknown::SafeToRerun, ..rules.clone() };
    let mut guarded = Guarded::everything(rules);
    for route in &mut guarded.routes {
        route.methods = ["POST", "PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec();
    }
    let rerun = api::routes().into_iter().filter(|route| route.rerun).filter_map(|route| {
        let (methods, path) = (vec![route.method.to_string()], route.path.parse().ok()?);
        Some(rules::Route { methods, path, rules: reruns.clone() })
    });
    // The first that fits counts.
    guarded.routes.splice(0..0, rerun);
    IdempotencyLayer::new(engine).guarding(guarded)
}

/// Puts a gate around a handler.
#[derive(Debug, Clone)]
pub(crate) struct GateLayer {
    pub(crate) need: Need,
    /// Absent where keys are not looked at.
    pub(crate) keys: Option<IdempotencyLayer>,
    pub(crate) meter: Arc<RouteMeter>,
}

/// An answer that was counted for its route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted;

impl<S: Clone> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        let told = Worded { inner };
        let keyed = self.keys.as_ref().map(|keys| keys.layer(told.clone()));
        Gate { need: self.need, keyed, told, meter: Arc::clone(&self.meter) }
    }
}

/// A handler behind its gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate<S> {
    need: Need,
    keyed: Option<Idempotent<Worded<S>>>,
    told: Worded<S>,
    meter: Arc<RouteMeter>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<S> Service<Request> for Gate<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.told.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Answering {
        let under_way = self.meter.begin();
        let answering = self.pass(request);
        Box::pin(async move {
            let mut answer = answering.await?;
            under_way.ends(answer.status());
            answer.extensions_mut().insert(Counted);
            Ok(answer)
        })
    }
}

impl<S> Gate<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    fn pass(&mut self, mut request: Request) -> Answering {
        if let Need::Scope(scope) = self.need {
            let caller = request.extensions().get::<Caller>();
            if !caller.is_some_and(|caller| caller.may(scope)) {
                let refused = Problem::new(Code::Forbidden, "token.scope").with("scope", scope.name());
                return Box::pin(std::future::ready(Ok(refused.into_response())));
            }
        }
        if is_encoded(&request) {
            let refused = Problem::new(Code::UnsupportedMediaType, "json.encoded");
            let mut refused = refused.into_response();
            refused.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            return Box::pin(std::future::ready(Ok(refused)));
        }
        match &mut self.keyed {
            Some(keyed) if request.headers().contains_key(IDEMPOTENCY_KEY) => {
                // By who it is, and not by its token: that may be exchanged for a new one.
                let owner = request.extensions().get::<Caller>().map(|caller| format!("api:{}", caller.who));
                request.extensions_mut().insert(KeyOwner(owner.unwrap_or_else(|| "api:nobody".to_owned())));
                let id = request.extensions().get::<RequestId>().cloned();
                let answering = keyed.call(request);
                Box::pin(async move { Ok(placed(answering.await?.map(Body::new), id.as_ref()).await) })
            }
            Some(keyed) => {
                keyed.passed_by();
                self.told.call(request)
            }
            None => self.told.call(request),
        }
    }
}

/// A problem of the keys says which request it was about, as every other one does.
async fn placed(answer: Response, id: Option<&RequestId>) -> Response {
    let Some(id) = id.filter(|_| answer.extensions().get::<FreshProblem>().is_some()) else { return answer };
    let (parts, body) = answer.into_parts();
    let told = axum::body::to_bytes(body, MOST_OF_A_PROBLEM).await.unwrap_or_default();
    let instance = serde_json::to_string(&format!("urn:redrive:request:{}", id.as_str())).unwrap_or_default();
    let body = match told.strip_suffix(b"}") {
        Some(before) => [before, b",\"instance\":", instance.as_bytes(), b"}"].concat().into(),
        None => told,
    };
    Response::from_parts(parts, Body::from(body))
}

/// Whether a body comes compressed. It is refused before a byte of it is read: nobody knows how large it would become.
fn is_encoded(request: &Request) -> bool {
    let plain = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    !request.headers().get_all(CONTENT_ENCODING).iter().all(plain) && !request.body().is_end_stream()
}

/// A handler whose problems have their words.
#[derive(Debug, Clone)]
struct Worded<S> {
    inner: S,
}

impl<S> Service<Request> for Worded<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Answering {
        let id = request.extensions().get::<RequestId>().cloned();
        let lang = redrive_idempotency::language(request.headers());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            Ok(worded(answer, lang, id.as_ref().map(RequestId::as_str)))
        })
    }
}
