//! A middleware for HTTP clients that retries requests under a policy, over the same machine as the closures.
//!
//! The rules are those of the tower layer: `Retry-After` is obeyed, one `Idempotency-Key` stays with all attempts, and
//! nothing is done twice without one. A body that is a stream cannot be sent again: such a request gets one attempt,
//! and a log line says so.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Classifier, History, Policy, Report, Rng, round_to_millis};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next as Rest};
use tokio::time::Instant;

use crate::chain::{chain_was_never_sent, report_chain};
use crate::chance;
use crate::exchange::{ensure_key, may_be_done_twice, was_turned_away};
use crate::inline::{Next, rule};
use crate::into_failure::IntoFailure;
use crate::signals::http::{is_failure, retry_after};
use crate::turns::Turns;

impl IntoFailure for Error {
    fn report(&self) -> Report<'_> {
        report_chain(behind(self))
    }

    fn never_sent(&self) -> bool {
        chain_was_never_sent(behind(self))
    }
}

fn behind(error: &Error) -> &(dyn std::error::Error + 'static) {
    match error {
        Error::Reqwest(error) => error,
        Error::Middleware(error) => error.as_ref(),
    }
}

/// What the client below does with redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirects {
    None,
    Followed,
}

/// Retries the requests of a client.
///
/// ```
/// use redrive::{Policy, RetryMiddleware};
///
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
///     .with(RetryMiddleware::new(Policy::standard()).generate_keys())
///     .build();
/// ```
pub struct RetryMiddleware {
    policy: Policy,
    generate_keys: bool,
    redirects: Redirects,
    classifier: Option<Arc<Classifier>>,
    deadline: Option<Duration>,
    seed: Option<u64>,
}

impl RetryMiddleware {
    /// Retries requests under this policy.
    ///
    /// A request with a method that is not idempotent and without an `Idempotency-Key` is sent again only when the
    /// failure proves that it was not processed: 429, or 503 with `Retry-After`, from the address it was sent to. A
    /// connection that did not come about is such a proof only [without redirects](RetryMiddleware::no_redirects).
    pub fn new(policy: impl Into<Policy>) -> RetryMiddleware {
        RetryMiddleware {
            policy: policy.into(),
            generate_keys: false,
            redirects: Redirects::Followed,
            classifier: None,
            deadline: None,
            seed: None,
        }
    }

    /// Gives POST and PATCH requests that carry no `Idempotency-Key` a random one, the same for all attempts. Only
    /// for servers that know the header.
    pub fn generate_keys(mut self) -> RetryMiddleware {
        self.generate_keys = true;
        self
    }

    /// Says that the client follows no redirects, so that every error and every answer is about the request itself.
    ///
    /// Then a POST without a key is sent again also when no connection came about. Not so with a client that follows
    /// them, as reqwest does unless told otherwise: a `POST /pay` that was answered with `303` to a host that
    /// refuses ends with a connect error too, and the payment was made.
    ///
    /// ```
    /// use redrive::{Policy, RetryMiddleware};
    ///
    /// let plain = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    /// let client = reqwest_middleware::ClientBuilder::new(plain)
    ///     .with(RetryMiddleware::new(Policy::standard()).no_redirects())
    ///     .build();
    /// ```
    pub fn no_redirects(mut self) -> RetryMiddleware {
        self.redirects = Redirects::None;
        self
    }

    /// Gives up rather than begin a wait that would end so long after the request was handed over, or later. The
    /// requests themselves are not cut off: that is what the client's own timeout is for.
    ///
    /// ```
    /// # use redrive::{Policy, RetryMiddleware}; use std::time::Duration;
    /// let retry = RetryMiddleware::new(Policy::standard()).give_up_waiting_after(Duration::from_secs(20));
    /// ```
    pub fn give_up_waiting_after(mut self, total: Duration) -> RetryMiddleware {
        self.deadline = Some(total);
        self
    }

    /// Recognises failures by another classifier.
    pub fn classifier(mut self, classifier: impl Into<Arc<Classifier>>) -> RetryMiddleware {
        self.classifier = Some(classifier.into());
        self
    }

    /// Draws the jitter of every request from this seed.
    pub fn seed(mut self, seed: u64) -> RetryMiddleware {
        self.seed = Some(seed);
        self
    }

    /// Whether an outcome proves that this request was not processed.
    fn was_not_processed(&self, request: &Request, outcome: &Result<Response, Error>) -> bool {
        match (self.redirects, outcome) {
            (Redirects::None, Err(error)) => error.never_sent(),
            // It may be the request after a redirect that was never sent, and this one was.
            (Redirects::Followed, Err(_)) => false,
            (redirects, Ok(answer)) => {
                let itself = redirects == Redirects::None || same_address(answer.url(), request.url());
                itself && was_turned_away(answer.status(), retry_after(answer.headers()))
            }
        }
    }

    /// How long to wait before a request is sent again; none when the outcome is the end.
    fn rule(
        &self,
        request: &Request,
        outcome: &Result<Response, Error>,
        history: &mut History,
        left: Option<Duration>,
        rng: &mut Rng,
    ) -> Option<Duration> {
        let report = match outcome {
            Ok(answer) if is_failure(answer.status()) => Report {
                http_status: Some(answer.status().as_u16()),
                retry_after: retry_after(answer.headers()),
                ..Report::default()
            },
            Ok(_) => return None,
            Err(error) => error.report(),
        };
        let classifier = self.classifier.as_deref().unwrap_or_else(|| Classifier::built_in());
        let failure = classifier.classify(&report);
        let allowed = || {
            may_be_done_twice(request.method(), request.headers()) || self.was_not_processed(request, outcome)
        };
        let (cause, http_status) = (failure.cause.name(), failure.http_status);
        match rule(&self.policy, history, &failure, left, rng, allowed) {
            (_, Next::Wait(wait)) => {
                let delay_ms = round_to_millis(wait);
                tracing::debug!(cause, http_status, delay_ms, "a request failed and will be sent again");
                Some(wait)
            }
            (_, Next::Stop(why)) => {
                tracing::debug!(cause, http_status, why = ?why, "a request failed and is not sent again");
                None
            }
        }
    }
}

/// Whether two addresses are the same; a fragment never leaves the client.
fn same_address(one: &reqwest::Url, other: &reqwest::Url) -> bool {
    one.as_str().split('#').next() == other.as_str().split('#').next()
}

#[async_trait::async_trait]
impl Middleware for RetryMiddleware {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut http::Extensions,
        rest: Rest<'_>,
    ) -> Result<Response, Error> {
        if self.generate_keys {
            let method = request.method().clone();
            ensure_key(&method, request.headers_mut());
        }
        let mut history = History::default();
        let mut rng = self.seed.map_or_else(chance::fresh, Rng::seeded);
        let mut turns = Turns::default();
        let began = self.deadline.map(|total| (Instant::now(), total));
        loop {
            let Some(copy) = request.try_clone() else {
                tracing::warn!(
                    method = %request.method(),
                    "the body of this request is a stream that cannot be sent again: it gets one attempt"
                );
                return rest.run(request, extensions).await;
            };
            let outcome = rest.clone().run(copy, extensions).await;
            let left = began.map(|(began, total)| total.saturating_sub(began.elapsed()));
            match self.rule(&request, &outcome, &mut history, left, &mut rng) {
                None => return outcome,
                Some(Duration::ZERO) => {
                    drop(outcome);
                    turns.take().await;
                }
                Some(wait) => {
                    // The connection goes back to the pool before the wait, not after it.
                    drop(outcome);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

impl fmt::Debug for RetryMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryMiddleware").field("policy", &self.policy.name).finish_non_exhaustive()
    }
}
