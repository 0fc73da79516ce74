//! A tower layer that retries requests under a policy, over the same machine as the closures.
//!
//! For any service with cloneable requests ([`RetryLayer::new`]), and for HTTP ([`RetryLayer::http`]), where a status
//! may be a failure, `Retry-After` is obeyed, one `Idempotency-Key` stays with all attempts, and nothing is done
//! twice without one. When retries are used up the caller gets the last answer itself, or the last error.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use pin_project_lite::pin_project;
use redrive_policy::{Classifier, History, Policy, Report, Rng, round_to_millis};
use tokio::time::{Instant, Sleep};
use tower_layer::Layer;
use tower_service::Service;

use crate::chance;
use crate::exchange::{ensure_key, may_be_done_twice, was_turned_away};
use crate::inline::{Next, rule};
use crate::into_failure::IntoFailure;
use crate::signals::http::{is_failure, retry_after};
use crate::turns::Turns;

/// How requests of a kind are retried: what is a failure, and what may be sent again.
///
/// [`Requests`] and [`HttpRequests`] come with the crate; a protocol of one's own implements it.
///
/// ```
/// use redrive::{Exchange, Report};
///
/// /// A line protocol whose answers begin with a three-digit code.
/// struct Lines;
/// impl Exchange<String, String, std::io::Error> for Lines {
///     fn copy(&self, request: &String) -> Option<String> { Some(request.clone()) }
///     fn failure<'a>(&self, outcome: Result<&'a String, &'a std::io::Error>) -> Option<Report<'a>> {
///         match outcome {
///             Ok(answer) if answer.starts_with('4') => Some(Report::text(answer.as_str())),
///             Ok(_) => None,
///             Err(error) => Some(redrive::report_chain(error)),
///         }
///     }
/// }
/// ```
pub trait Exchange<Req, Res, E> {
    /// Makes a request ready to be sent perhaps more than once.
    fn prepare(&self, request: &mut Req) {
        let _ = request;
    }

    /// A copy of a request; none when there is no way to make one, and then it is sent once.
    fn copy(&self, request: &Req) -> Option<Req>;

    /// What is known about an outcome that is a failure; none for a success.
    fn failure<'a>(&self, outcome: Result<&'a Res, &'a E>) -> Option<Report<'a>>;

    /// Whether this request may be sent again after this outcome. The policy has agreed already.
    fn may_repeat(&self, request: &Req, outcome: Result<&Res, &E>) -> bool {
        let _ = (request, outcome);
        true
    }
}

/// Any cloneable requests; an error is a failure, an answer never is. Every request may be repeated: for HTTP there is
/// [`HttpRequests`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Requests;

impl<Req: Clone, Res, E: IntoFailure> Exchange<Req, Res, E> for Requests {
    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }

    fn failure<'a>(&self, outcome: Result<&'a Res, &'a E>) -> Option<Report<'a>> {
        outcome.err().map(IntoFailure::report)
    }
}

/// HTTP requests with cloneable bodies; a 4xx or 5xx answer is a failure, and nothing is done twice. The service below
/// must follow no redirects.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpRequests {
    generate_keys: bool,
}

impl<B: Clone, RB, E: IntoFailure> Exchange<Request<B>, Response<RB>, E> for HttpRequests {
    fn prepare(&self, request: &mut Request<B>) {
        if self.generate_keys {
            let method = request.method().clone();
            ensure_key(&method, request.headers_mut());
        }
    }

    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }

    fn failure<'a>(&self, outcome: Result<&'a Response<RB>, &'a E>) -> Option<Report<'a>> {
        match outcome {
            Ok(answer) => is_failure(answer.status()).then(|| answer.report()),
            Err(error) => Some(error.report()),
        }
    }

    fn may_repeat(&self, request: &Request<B>, outcome: Result<&Response<RB>, &E>) -> bool {
        may_be_done_twice(request.method(), request.headers())
            || match outcome {
                Ok(answer) => was_turned_away(answer.status(), retry_after(answer.headers())),
                Err(error) => error.never_sent(),
            }
    }
}

/// Retries the requests of a service.
///
/// ```
/// use redrive::{Policy, RetryLayer};
/// use tower::{Layer, Service, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let mut left = 2;
/// let flaky = tower::service_fn(move |request: u32| {
///     left = u32::saturating_sub(left, 1);
///     async move { if left > 0 { Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) } else { Ok(request + 1) } }
/// });
/// let mut service = RetryLayer::new(Policy::standard()).layer(flaky);
/// assert_eq!(service.ready().await.unwrap().call(41).await.unwrap(), 42);
/// # });
/// ```
pub struct RetryLayer<X = Requests> {
    plan: Plan<X>,
}

/// What all services under one layer share.
struct Plan<X> {
    policy: Policy,
    exchange: Arc<X>,
    classifier: Option<Arc<Classifier>>,
    deadline: Option<Duration>,
    seed: Option<u64>,
}

impl RetryLayer {
    /// Retries any cloneable requests whose errors are known to [`IntoFailure`].
    ///
    /// **This repeats whatever it is given**, also a payment that was made before the line broke: nothing is known
    /// here of what a request does. For HTTP take [`RetryLayer::http`], which does nothing twice; for a protocol of
    /// one's own say in [`Exchange::may_repeat`] what must not be repeated.
    pub fn new(policy: impl Into<Policy>) -> RetryLayer {
        RetryLayer::of(Requests, policy)
    }
}

impl RetryLayer<HttpRequests> {
    /// Retries HTTP requests.
    ///
    /// A request with a method that is not idempotent and without an `Idempotency-Key` is sent again only when the
    /// failure proves that it was not processed: no connection came about, 429, or 503 with `Retry-After`.
    ///
    /// That proof needs a service below that **follows no redirects** (hyper's clients follow none). Where one
    /// does, a POST that was processed and answered with a redirect may end with the error or the answer of another
    /// request. Put a layer that follows redirects above this one, never below.
    ///
    /// ```
    /// let layer = redrive::RetryLayer::http(redrive::Policy::standard()).generate_keys();
    /// ```
    pub fn http(policy: impl Into<Policy>) -> RetryLayer<HttpRequests> {
        RetryLayer::of(HttpRequests::default(), policy)
    }

    /// Gives POST and PATCH requests that carry no `Idempotency-Key` a random one, the same for all attempts. Only
    /// for servers that know the header.
    pub fn generate_keys(mut self) -> RetryLayer<HttpRequests> {
        self.plan.exchange = Arc::new(HttpRequests { generate_keys: true });
        self
    }
}

impl<X> RetryLayer<X> {
    /// Retries requests of a kind of one's own.
    pub fn of(exchange: X, policy: impl Into<Policy>) -> RetryLayer<X> {
        let exchange = Arc::new(exchange);
        let plan = Plan { policy: policy.into(), exchange, classifier: None, deadline: None, seed: None };
        RetryLayer { plan }
    }

    /// Gives up rather than begin a wait that would end so long after the request came in, or later. The requests
    /// themselves are not cut off: that is for a timeout layer below this one.
    ///
    /// ```
    /// # use redrive::{Policy, RetryLayer}; use std::time::Duration;
    /// let layer = RetryLayer::http(Policy::standard()).give_up_waiting_after(Duration::from_secs(20)).seed(7);
    /// ```
    pub fn give_up_waiting_after(mut self, total: Duration) -> RetryLayer<X> {
        self.plan.deadline = Some(total);
        self
    }

    /// Recognises failures by another classifier.
    pub fn classifier(mut self, classifier: impl Into<Arc<Classifier>>) -> RetryLayer<X> {
        self.plan.classifier = Some(classifier.into());
        self
    }

    /// Draws the jitter of every request from this seed.
    pub fn seed(mut self, seed: u64) -> RetryLayer<X> {
        self.plan.seed = Some(seed);
        self
    }
}

impl<S, X> Layer<S> for RetryLayer<X> {
    type Service = RetryService<S, X>;

    fn layer(&self, inner: S) -> RetryService<S, X> {
        RetryService { inner, plan: Arc::new(self.plan.clone()) }
    }
}

/// A service whose requests are retried. Made by [`RetryLayer`].
pub struct RetryService<S, X = Requests> {
    inner: S,
    plan: Arc<Plan<X>>,
}

impl<S, X, Req> Service<Req> for RetryService<S, X>
where
    S: Service<Req> + Clone,
    X: Exchange<Req, S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, X, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> RetryFuture<S, X, Req> {
        // The one that was found ready serves this request; its clone has yet to become ready for the next.
        let spare = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, spare);
        let plan = Arc::clone(&self.plan);
        plan.exchange.prepare(&mut request);
        let original = plan.exchange.copy(&request);
        if original.is_none() {
            tracing::debug!("the request cannot be copied, so it is sent once");
        }
        let answer = service.call(request);
        RetryFuture {
            service,
            original,
            history: History::default(),
            rng: plan.seed.map(Rng::seeded),
            began: plan.deadline.map(|_| Instant::now()),
            turns: Turns::default(),
            plan,
            phase: Phase::Calling { answer },
        }
    }
}

pin_project! {
    /// A request that is being sent, perhaps again. Made by [`RetryService`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct RetryFuture<S: Service<Req>, X, Req> {
        service: S,
        original: Option<Req>,
        history: History,
        rng: Option<Rng>,
        began: Option<Instant>,
        turns: Turns,
        plan: Arc<Plan<X>>,
        #[pin]
        phase: Phase<S::Future>,
    }
}

pin_project! {
    #[project = PhaseProjection]
    enum Phase<F> {
        Calling { #[pin] answer: F },
        Waiting { sleep: Pin<Box<Sleep>> },
        Readying,
    }
}

impl<S, X, Req> Future for RetryFuture<S, X, Req>
where
    S: Service<Req>,
    X: Exchange<Req, S::Response, S::Error>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.phase.as_mut().project() {
                PhaseProjection::Calling { answer } => {
                    let outcome = ready!(answer.poll(cx));
                    let Some(original) = this.original else { return Poll::Ready(outcome) };
                    let left = match (this.plan.deadline, &this.began) {
                        (Some(total), Some(began)) => Some(total.saturating_sub(began.elapsed())),
                        _ => None,
                    };
                    let wait = this.plan.rule(&outcome, original, this.history, left, this.rng);
                    match wait {
                        None => return Poll::Ready(outcome),
                        Some(Duration::ZERO) => {
                            this.phase.set(Phase::Readying);
                            if this.turns.is_over() {
                                cx.waker().wake_by_ref();
                                return Poll::Pending;
                            }
                        }
                        Some(wait) => {
                            this.phase.set(Phase::Waiting { sleep: Box::pin(tokio::time::sleep(wait)) });
                        }
                    }
                }
                PhaseProjection::Waiting { sleep } => {
                    ready!(sleep.as_mut().poll(cx));
                    this.phase.set(Phase::Readying);
                }
                PhaseProjection::Readying => {
                    if let Err(error) = ready!(this.service.poll_ready(cx)) {
                        return Poll::Ready(Err(error));
                    }
                    let Some(original) = this.original.take() else { return Poll::Pending };
                    *this.original = this.plan.exchange.copy(&original);
                    let answer = this.service.call(original);
                    this.phase.set(Phase::Calling { answer });
                }
            }
        }
    }
}

impl<X> Plan<X> {
    /// How long to wait before this request is sent again; none when the outcome is the end.
    fn rule<Req, Res, E>(
        &self,
        outcome: &Result<Res, E>,
        request: &Req,
        history: &mut History,
        left: Option<Duration>,
        rng: &mut Option<Rng>,
    ) -> Option<Duration>
    where
        X: Exchange<Req, Res, E>,
    {
        let report = self.exchange.failure(outcome.as_ref())?;
        let classifier = self.classifier.as_deref().unwrap_or_else(|| Classifier::built_in());
        let failure = classifier.classify(&report);
        let rng = rng.get_or_insert_with(chance::fresh);
        let allowed = || self.exchange.may_repeat(request, outcome.as_ref());
        match rule(&self.policy, history, &failure, left, rng, allowed) {
            (_, Next::Wait(wait)) => {
                tracing::debug!(
                    cause = failure.cause.name(),
                    http_status = failure.http_status,
                    delay_ms = round_to_millis(wait),
                    "a request failed and will be sent again"
                );
                Some(wait)
            }
            (_, Next::Stop(why)) => {
                tracing::debug!(
                    cause = failure.cause.name(),
                    http_status = failure.http_status,
                    why = ?why,
                    "a request failed and is not sent again"
                );
                None
            }
        }
    }
}

// By hand, because an exchange is shared and need not be cloneable itself.
impl<X> Clone for Plan<X> {
    fn clone(&self) -> Plan<X> {
        Plan {
            policy: self.policy.clone(),
            exchange: Arc::clone(&self.exchange),
            classifier: self.classifier.clone(),
            deadline: self.deadline,
            seed: self.seed,
        }
    }
}

impl<X> Clone for RetryLayer<X> {
    fn clone(&self) -> RetryLayer<X> {
        RetryLayer { plan: self.plan.clone() }
    }
}

impl<S: Clone, X> Clone for RetryService<S, X> {
    fn clone(&self) -> RetryService<S, X> {
        RetryService { inner: self.inner.clone(), plan: Arc::clone(&self.plan) }
    }
}

impl<X> fmt::Debug for RetryLayer<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer").field("policy", &self.plan.policy.name).finish_non_exhaustive()
    }
}

impl<S, X> fmt::Debug for RetryService<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryService").field("policy", &self.plan.policy.name).finish_non_exhaustive()
    }
}
