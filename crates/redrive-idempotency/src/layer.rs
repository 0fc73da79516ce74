//! The layer: a Rust service adds it, and from then on a request with a key does its effect once (R-I1 to R-I5).
//!
//! A request's way: its head is looked at; its body is read, as far as the rules allow; its key is taken, or its answer comes from the
//! record; the service runs; the answer is recorded; the answer is sent. From the taking of the key on all of it happens in a task of its
//! own, so that a client that goes away stops neither the service nor the recording. What is not guarded passes as it is.

mod answer;
mod body;
mod run;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use redrive::engine::Engine;
use redrive_policy::idempotency::{BadPattern, Guarded, Route, Rules};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;

use crate::guard::{Guard, KeyOwner, Looked};
use crate::problem::Problem;
use crate::word::REDRIVE_IDEMPOTENCY;
pub use answer::AnswerBody;
use body::{Buffered, Extent};
use run::run;

/// Guards the requests of a service with idempotency keys.
///
/// Put it where the whole path is seen, so around the outermost router, and inside of whatever authenticates callers: a request that is
/// refused before it leaves no trace.
///
/// ```
/// use axum::{Router, routing::post};
/// use redrive::engine::Engine;
/// use redrive_idempotency::IdempotencyLayer;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("redrive.db");
/// let engine = Engine::open(&path)?;
/// let app: Router = Router::new()
///     .route("/v1/bookmarks", post(async || "saved"))
///     .layer(IdempotencyLayer::new(&engine));
/// # Ok::<(), redrive::engine::EngineError>(())
/// ```
#[derive(Debug, Clone)]
pub struct IdempotencyLayer {
    guard: Guard,
    guarded: Guarded,
    /// Whether somebody said which routes.
    chosen: bool,
}

/// A text that names no routes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no route: {why}")]
pub struct BadRoute {
    text: String,
    why: &'static str,
}

impl IdempotencyLayer {
    /// Guards whatever carries a key: every POST and PATCH, with any text as key. Nothing is required.
    pub fn new(engine: &Engine) -> IdempotencyLayer {
        let guarded = Guarded::whatever_carries_a_key();
        IdempotencyLayer { guard: Guard::new(engine, guarded.clone()), guarded, chosen: false }
    }

    /// Guards these routes alone, such as those of a configuration.
    #[must_use]
    pub fn guarding(self, guarded: Guarded) -> IdempotencyLayer {
        let guard = Guard::new(self.guard.engine(), guarded.clone());
        IdempotencyLayer { guard, guarded, chosen: true }
    }

    /// Guards this route, and no others but those that are named as well. The first that fits a request counts.
    ///
    /// A route is a path, of which `{name}` stands for any one segment and a last `**` for the rest. POST and PATCH are meant, unless
    /// methods stand before it. Its rules begin as the defaults: a UUID as key, and requests without one pass.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive::engine::Engine;
    /// use redrive_idempotency::IdempotencyLayer;
    /// use redrive_idempotency::rules::{InFlight, KeyForm, OnUnknown};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let engine = Engine::open(folder.path().join("redrive.db")).unwrap();
    /// let layer = IdempotencyLayer::new(&engine)
    ///     .route("/v1/payments", |rules| {
    ///         rules.required = true;
    ///         rules.in_flight = InFlight::Wait(Duration::from_secs(5));
    ///     })?
    ///     .route("PUT,DELETE /v1/notes/{id}", |rules| {
    ///         rules.key = KeyForm::Any;
    ///         rules.unknown = OnUnknown::SafeToRerun;
    ///     })?;
    /// # assert!(IdempotencyLayer::new(&engine).route("v1/payments", |_| {}).is_err());
    /// # Ok::<(), redrive_idempotency::BadRoute>(())
    /// ```
    pub fn route(self, route: &str, rules: impl FnOnce(&mut Rules)) -> Result<IdempotencyLayer, BadRoute> {
        let bad = |why| BadRoute { text: route.to_owned(), why };
        let (methods, path) = route.rsplit_once(' ').unwrap_or(("", route));
        let methods = methods.split([',', ' ']).filter(|method| !method.is_empty());
        let methods: Vec<String> = methods.map(str::to_owned).collect();
        if methods.iter().any(|method| !method.bytes().all(|byte| byte.is_ascii_uppercase())) {
            return Err(bad("methods are written in capitals, such as `PUT,DELETE /v1/notes`"));
        }
        let path = path.parse().map_err(|pattern| {
            bad(match pattern {
                BadPattern::NoSlash => "a path begins with a slash",
                BadPattern::RestNotLast => "`**` stands at the end or nowhere",
                BadPattern::OddSegment => "a segment is a text, or a `{name}`, and not both",
            })
        })?;
        let mut own = Rules::default();
        rules(&mut own);
        let mut guarded = if self.chosen { self.guarded.clone() } else { Guarded::default() };
        guarded.routes.push(Route { methods, path, rules: own });
        Ok(self.guarding(guarded))
    }

    /// The guard behind it, which every clone shares: for ending well, see [`Guard::drain`].
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl From<Guard> for IdempotencyLayer {
    fn from(guard: Guard) -> IdempotencyLayer {
        let guarded = guard.guarded().clone();
        IdempotencyLayer { guard, guarded, chosen: true }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotent<S>;

    fn layer(&self, inner: S) -> Idempotent<S> {
        Idempotent { inner, guard: self.guard.clone() }
    }
}

impl<S> Idempotent<S> {
    /// Counts a request without a key that was not even shown to it: how many bring one is told of all that could.
    pub fn passed_by(&self) {
        self.guard.passed_by();
    }
}

/// A service whose requests are guarded. Made by [`IdempotencyLayer`].
#[derive(Debug, Clone)]
pub struct Idempotent<S> {
    inner: S,
    guard: Guard,
}

impl<S, B, RB> Service<Request<B>> for Idempotent<S>
where
    S: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    RB: Body + Send + 'static,
    RB::Data: Send,
{
    type Response = Response<AnswerBody<RB>>;
    type Error = S::Error;
    type Future = Answering<S::Future, RB, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let owner = request.extensions().get::<KeyOwner>();
        match self.guard.look_for(request.method(), request.uri(), request.headers(), owner) {
            Looked::Pass => Answering::Passes { future: self.inner.call(request) },
            Looked::Refused(answer) => {
                let answer = answer.map(AnswerBody::whole);
                Answering::Guarded { future: Box::pin(async { Ok(answer) }) }
            }
            Looked::Guarded(asked) => {
                // The one that is ready serves this request; its clone may have to wait.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                let guard = self.guard.clone();
                let guarded = async move {
                    let (parts, body) = request.into_parts();
                    let limit = asked.rules().max_request;
                    let mut body = Buffered::new(body);
                    let refused = match body.fill(limit).await {
                        Extent::Whole => {
                            let running = run(guard, asked, ready, parts, body.front).in_current_span();
                            return run::on_its_own(running).await;
                        }
                        Extent::Larger => Problem::RequestTooLarge { limit },
                        Extent::Broken => Problem::RequestBroken,
                    };
                    Ok(refused.response(asked.lang()).map(AnswerBody::whole))
                };
                Answering::Guarded { future: Box::pin(guarded) }
            }
        }
    }
}

type Boxed<RB, E> = Pin<Box<dyn Future<Output = Result<Response<AnswerBody<RB>>, E>> + Send>>;

pin_project_lite::pin_project! {
    /// The answer to come of an [`Idempotent`] service.
    #[project = Way]
    pub enum Answering<F, RB, E> {
        #[doc(hidden)]
        Passes { #[pin] future: F },
        #[doc(hidden)]
        Guarded { future: Boxed<RB, E> },
    }
}

impl<F, RB, E> std::fmt::Debug for Answering<F, RB, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl<F, RB, E> Future for Answering<F, RB, E>
where
    F: Future<Output = Result<Response<RB>, E>>,
{
    type Output = Result<Response<AnswerBody<RB>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Way::Passes { future } => Poll::Ready(ready!(future.poll(cx)).map(|mut answer| {
                answer.headers_mut().remove(REDRIVE_IDEMPOTENCY);
                answer.map(AnswerBody::passing)
            })),
            Way::Guarded { future } => future.as_mut().poll(cx),
        }
    }
}
