//! A guarded request: its key is taken, it is sent to the service, and what became of it is written down before the client hears of it.
//!
//! From the taking of the key on all of it happens in a task of its own: a client that goes away ends nothing. A request is sent again
//! only where that cannot do its effect twice: when it was never sent, when its answer says that nothing was done, or when the route can
//! bear it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Version, response};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use redrive::{Evidence, HttpFailure};
use redrive_policy::idempotency::{Keep, OnUnknown};
use redrive_policy::{Action, History, Report, decide};
use redrive_store::MAX_RESPONSE_BYTES;
use tokio::time::{Instant, sleep};

use super::connection::whole;
use super::gather::{Broke, Continued, Followed, Gathered, gather};
use super::upstream::{Care, Sent, Trouble};
use super::{Answer, Notable, Shared, hops, in_time, live};
use crate::guard::{Asked, Entered, Held};
use crate::problem::{Doubt, Problem};
use crate::replay::{dated, kept};
use crate::word;

/// Answers that say that nothing was done: it came too slowly, too early, too often, or when nobody had time for it. Another failure,
/// such as a 500 or the 504 of a gateway further in, may come after the effect.
const NOTHING_DONE: [StatusCode; 4] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// A request that is known whole, and can be sent again.
struct Known {
    parts: Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

/// An answer, as far as it is known before the client hears of it.
struct Answered {
    parts: response::Parts,
    body: Gathered,
    keep: Keep,
}

impl Shared {
    /// Reads the whole request, and runs it whether or not its client stays.
    pub(super) async fn keyed(
        self: &Arc<Self>,
        asked: Asked,
        mut request: Request<Incoming>,
    ) -> Response<Answer> {
        let lang = asked.lang();
        let limit = asked.rules().max_request;
        let too_large = || whole(Problem::RequestTooLarge { limit }.response(lang));
        // What is sent on must not hold a wish for another protocol.
        drop(hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return too_large();
        }
        let reading = Limited::new(body, limit).collect();
        let body = match in_time(self.options.client_timeout, reading).await {
            Some(Ok(body)) => body,
            Some(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Some(Err(_)) | None => return whole(Problem::RequestBroken.response(lang)),
        };
        // The body is here already: nobody needs to be asked for it.
        parts.headers.remove(EXPECT);
        let trailers = body.trailers().cloned();
        if trailers.is_some() {
            parts.headers.remove(CONTENT_LENGTH);
        }
        let request = Known { parts, body: body.to_bytes(), trailers };
        let shared = Arc::clone(self);
        let one = live::one(&self.live, |live| &live.guarded);
        let running = tokio::spawn(async move {
            let answer = shared.run(&asked, &request).await;
            drop(one);
            answer
        });
        // It fails when it panics, and then its key was given up.
        running.await.unwrap_or_else(|_| whole(Problem::HandlerBroke.response(lang)))
    }

    /// Takes the key and sends the request until there is an end to it, or answers from the record.
    async fn run(&self, asked: &Asked, request: &Known) -> Response<Answer> {
        let entered = self.guard.enter(asked, &request.body).await;
        self.has_asked_the_store();
        let held = match entered {
            Entered::Answer(answer) => return whole(answer),
            Entered::Run(held) => held,
        };
        let until = self.until();
        let mut history = History::default();
        let mut in_doubt = false;
        loop {
            let tried = self.try_once(&held, request, until).await;
            if let Some(evidence) = worth_another(&held, &tried)
                && let Some(delay) = self.pause(&evidence, &mut history, until)
            {
                in_doubt |= matches!(tried, Err(Trouble::Lost(_) | Trouble::TimedOut))
                    || matches!(&tried, Ok(answered) if answered.keep == Keep::Unknown);
                if let Err(trouble) = &tried {
                    self.unanswered(trouble, Doubt::Unguarded);
                }
                self.live.retried.fetch_add(1, Ordering::Relaxed);
                drop(tried);
                sleep(delay).await;
                continue;
            }
            return match tried {
                Ok(answered) => self.answered(held, answered, in_doubt).await,
                Err(trouble) => self.not_answered(held, &trouble, in_doubt).await,
            };
        }
    }

    async fn try_once(&self, held: &Held, request: &Known, until: Instant) -> Result<Answered, Trouble> {
        let mut answer = self.upstream.send(request.again(), Care::Keyed, until).await?;
        self.is_up();
        drop(hyper::upgrade::on(&mut answer));
        let (mut parts, body) = answer.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Trouble::Lost("the service changed its protocol unasked".into()));
        }
        hops::end_here(&mut parts.headers, &[]);
        parts.version = Version::HTTP_11;
        let word = word::taken(&mut parts.headers);
        let keep = word.unwrap_or_else(|| held.keep(parts.status, &parts.headers));
        if word::is_endless(parts.status, &parts.headers) {
            return Ok(Answered { parts, body: Gathered::GoesOn { front: Bytes::new(), rest: body }, keep });
        }
        let limit = held.rules().max_response.min(MAX_RESPONSE_BYTES);
        match gather(body, limit, until).await {
            Ok(body) => Ok(Answered { parts, body, keep }),
            Err(Broke::Off(error)) => Err(Trouble::Lost(error)),
            Err(Broke::Silent) => Err(Trouble::TimedOut),
        }
    }

    /// How long to wait before the next try, when the policy wants one and there is time for it.
    fn pause(&self, evidence: &Evidence, history: &mut History, until: Instant) -> Option<Duration> {
        let engine = self.guard.engine();
        let failure = engine.classifier().classify(&evidence.report());
        let decision = decide(&self.policy, &failure, history, &mut engine.rng());
        history.record(&decision);
        match decision.action {
            Action::Retry { delay } if Instant::now() + delay < until => Some(delay),
            _ => None,
        }
    }

    /// The service answered: its word, or the rules by its status, say what becomes of the key.
    async fn answered(&self, held: Held, answered: Answered, in_doubt: bool) -> Response<Answer> {
        let endpoint = held.asked().endpoint().to_owned();
        let Answered { mut parts, body, keep } = answered;
        dated(&mut parts.headers, held.now());
        let why = format!("it was answered with status {}", parts.status.as_u16());
        let ended = match keep {
            Keep::Store => {
                let body = match &body {
                    Gathered::Whole(body, _) => Some(body.to_vec()),
                    Gathered::GoesOn { .. } => None,
                };
                let response = kept(held.rules(), parts.status, &parts.headers, body);
                held.complete(response).await
            }
            Keep::Release if !in_doubt => held.release(parts.status.is_server_error().then_some(why)).await,
            Keep::Release | Keep::Unknown => {
                self.tell_unknown(&held, &why);
                held.give_up(why).await
            }
        };
        if ended.is_err() {
            // The answer leaves all the same: it is what happened.
            (self.tell)(Notable::NotRecorded { endpoint });
        }
        let body = match body {
            Gathered::Whole(body, trailers) => bounded(body, trailers),
            Gathered::GoesOn { front, rest } => Continued::new(front, rest).boxed_unsync(),
        };
        Response::from_parts(parts, body)
    }

    /// There is no answer. What was never sent is free to be sent again; of everything else nobody knows.
    async fn not_answered(&self, held: Held, trouble: &Trouble, in_doubt: bool) -> Response<Answer> {
        let lang = held.asked().lang();
        let endpoint = held.asked().endpoint().to_owned();
        let doubt = if can_bear_it(&held) { Doubt::SafeToRerun } else { Doubt::Unknown };
        let problem = self.unanswered(trouble, doubt);
        let why = match trouble {
            Trouble::NeverSent(_) => "the service went away before it was sent again",
            Trouble::Lost(_) => "the connection to the service was lost after it was sent",
            Trouble::TimedOut => "the service did not answer in time",
        };
        let ended = if matches!(trouble, Trouble::NeverSent(_)) && !in_doubt {
            held.release(None).await
        } else {
            self.tell_unknown(&held, why);
            held.give_up(why).await
        };
        if ended.is_err() {
            (self.tell)(Notable::NotRecorded { endpoint });
        }
        let problem = match problem {
            Problem::UpstreamUnreachable if in_doubt => Problem::UpstreamLost(doubt),
            problem => problem,
        };
        whole(problem.response(lang))
    }

    fn tell_unknown(&self, held: &Held, why: &str) {
        let (endpoint, key) = (held.asked().endpoint().to_owned(), held.asked().key().to_string());
        (self.tell)(Notable::UnknownOutcome { endpoint, key, why: why.to_owned() });
    }
}

fn can_bear_it(held: &Held) -> bool {
    held.rules().unknown == OnUnknown::SafeToRerun
}

/// What is known of a try that may be followed by another without doing anything twice; nothing when it may not.
fn worth_another(held: &Held, tried: &Result<Answered, Trouble>) -> Option<Evidence> {
    match tried {
        Err(Trouble::NeverSent(error)) => Some(Evidence::of(error)),
        Err(Trouble::Lost(error)) if can_bear_it(held) => {
            let report = Report::text(error.to_string()).with_code("ECONNRESET");
            Some(Evidence::from_report("Lost", &report))
        }
        Err(Trouble::TimedOut) if can_bear_it(held) => {
            let report = Report::text("no answer in time").with_code("ETIMEDOUT");
            Some(Evidence::from_report("Timeout", &report))
        }
        Err(Trouble::Lost(_) | Trouble::TimedOut) => None,
        Ok(answered) => {
            let status = answered.parts.status;
            let is_failure = status.is_client_error() || status.is_server_error();
            let may = match answered.keep {
                Keep::Store => false,
                Keep::Release => NOTHING_DONE.contains(&status) || can_bear_it(held),
                Keep::Unknown => can_bear_it(held),
            };
            let front = match &answered.body {
                Gathered::Whole(body, _) => body,
                Gathered::GoesOn { front, .. } => front,
            };
            (is_failure && may)
                .then(|| Evidence::of(&HttpFailure::new(status, &answered.parts.headers, front)))
        }
    }
}

impl Known {
    /// The same once more, key and all.
    fn again(&self) -> Request<Sent> {
        let body = bounded(self.body.clone(), self.trailers.clone());
        Request::from_parts(self.parts.clone(), body)
    }
}

/// A body from memory, and what stands behind it.
fn bounded(body: Bytes, trailers: Option<HeaderMap>) -> Sent {
    match trailers {
        None => Full::new(body).map_err(|never| match never {}).boxed_unsync(),
        Some(trailers) => Followed::new(body, trailers).boxed_unsync(),
    }
}
