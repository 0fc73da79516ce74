//! One guarded request from the taking of its key to its answer. Runs in a task of its own, which nobody's going away ends.
//!
//! The answer leaves only when it is known what became of the key. When that cannot be written down the answer leaves all the same: it is
//! what happened, and the key will say that nobody knows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use redrive_policy::Lang;
use redrive_policy::idempotency::Keep;
use redrive_store::MAX_RESPONSE_BYTES;
use tower_service::Service;

use super::answer::AnswerBody;
use super::body::{Buffered, Extent};
use crate::extract::{Idem, Standing, Word};
use crate::guard::{Asked, Entered, Guard, Held};
use crate::problem::Problem;
use crate::replay::{dated, kept};
use crate::word::{self, KeptInstead};

type Answered<RB, E> = Result<Response<AnswerBody<RB>>, E>;

/// Runs it to its end, whether or not somebody still waits for it.
pub(super) async fn on_its_own<T: Send + 'static>(running: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(running).await {
        Ok(ended) => ended,
        // Our own panic, which is passed on; or the runtime ends, and nobody is there to hear an answer.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

/// Takes the key and runs the service, or answers from the record.
pub(super) async fn run<S, B, RB>(
    guard: Guard,
    asked: Asked,
    mut service: S,
    mut parts: Parts,
    body: Bytes,
) -> Answered<RB, S::Error>
where
    S: Service<Request<B>, Response = Response<RB>>,
    B: From<Bytes>,
    RB: Body,
{
    let held = match guard.enter(&asked, &body).await {
        Entered::Answer(answer) => return Ok(answer.map(AnswerBody::whole)),
        Entered::Run(held) => held,
    };
    let idem = Idem::new(&guard, &held);
    parts.extensions.insert(idem.clone());
    let request = Request::from_parts(parts, B::from(body));
    match caught(async { service.call(request).await }).await {
        Some(Ok(answer)) => Ok(answered(held, &idem, answer).await),
        Some(Err(error)) => {
            give_up(held, "the service answered with an error of its own").await;
            Err(error)
        }
        None => Ok(broke(held, &idem).await),
    }
}

/// Nothing when it panicked on the way.
async fn caught<T>(running: impl Future<Output = T>) -> Option<T> {
    let mut running = pin!(running);
    std::future::poll_fn(move |cx| {
        // What it held is dropped with it and never looked at again.
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// The service panicked. What it completed in a transaction of its own is true all the same.
async fn broke<RB>(held: Held, idem: &Idem) -> Response<AnswerBody<RB>> {
    let endpoint = held.asked().endpoint();
    tracing::error!(endpoint, "the handler of a request with an idempotency key panicked");
    let lang = held.asked().lang();
    if let Standing::Committed(recorded) = idem.standing().await {
        held.settled();
        return recorded.map(AnswerBody::whole);
    }
    give_up(held, "its handler panicked").await;
    broken(lang)
}

fn broken<RB>(lang: Lang) -> Response<AnswerBody<RB>> {
    Problem::HandlerBroke.response(lang).map(AnswerBody::whole)
}

/// The service answered.
async fn answered<RB: Body>(held: Held, idem: &Idem, answer: Response<RB>) -> Response<AnswerBody<RB>> {
    let mut answer = answer.map(Buffered::new);
    let by_header = word::taken(answer.headers_mut());
    let answer = match idem.standing().await {
        Standing::Committed(recorded) => committed(held, recorded, answer).await,
        Standing::RolledBack(recorded) if is_same(&recorded, &mut answer).await => {
            tracing::error!(
                endpoint = held.asked().endpoint(),
                "a handler answered what it had completed in a transaction that was never committed"
            );
            let lang = held.asked().lang();
            give_up(held, "the transaction in which it was completed was not committed").await;
            return broken(lang);
        }
        Standing::Open | Standing::RolledBack(_) => {
            let word = idem.word().or_else(|| by_header.map(|keep| Word { keep, why: None }));
            ended(held, word, answer).await
        }
        Standing::Unclear => {
            // Who asks next finds either the answer that was committed, or that nobody knows.
            give_up(held, "whether its transaction was committed cannot be seen").await;
            Ok(answer)
        }
    };
    answer.map_or_else(broken, |answer| answer.map(AnswerBody::from))
}

/// What becomes of the key is said by the service, or else by the status. An answer that broke off is told by the caller's language.
async fn ended<RB: Body>(
    held: Held,
    word: Option<Word>,
    answer: Response<Buffered<RB>>,
) -> Result<Response<Buffered<RB>>, Lang> {
    let status = answer.status();
    // A connection that was taken over was answered, whatever the rules say of its hundred.
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    let by_status = if switches { Keep::Store } else { held.keep(status, answer.headers()) };
    let (keep, why) = word.map_or((by_status, None), |word| (word.keep, word.why));
    let tell = status.is_server_error() || why.is_some();
    let why = why.unwrap_or_else(|| format!("it was answered with status {}", status.as_u16()));
    match keep {
        Keep::Store => return stored(held, answer).await,
        // What goes wrong is logged where it does, here and below.
        Keep::Release => drop(held.release(tell.then_some(why)).await),
        Keep::Unknown => give_up(held, why).await,
    }
    Ok(answer)
}

async fn give_up(held: Held, why: impl Into<String>) {
    // When that cannot be written down the lease runs out, which says the same.
    drop(held.give_up(why).await);
}

/// Keeps the answer.
async fn stored<RB: Body>(
    held: Held,
    mut answer: Response<Buffered<RB>>,
) -> Result<Response<Buffered<RB>>, Lang> {
    let lang = held.asked().lang();
    dated(answer.headers_mut(), held.now());
    let limit = held.rules().max_response.min(MAX_RESPONSE_BYTES);
    let extent = if word::is_endless(answer.status(), answer.headers()) {
        Some(Extent::Larger)
    } else {
        caught(answer.body_mut().fill(limit)).await
    };
    let body = match extent {
        Some(Extent::Whole) => Some(answer.body().front.to_vec()),
        Some(Extent::Larger) => None,
        Some(Extent::Broken) | None => {
            give_up(held, "its answer broke off").await;
            return Err(lang);
        }
    };
    let instead = answer.extensions_mut().remove::<KeptInstead>().map(|KeptInstead(body)| body.to_vec());
    let response = kept(held.rules(), answer.status(), answer.headers(), instead.or(body));
    drop(held.complete(response).await);
    Ok(answer)
}

/// The handler completed its request in its own transaction, so that answer is the one for everybody, this caller included. What else was
/// put on it on the way back, such as headers, goes along.
async fn committed<RB: Body>(
    held: Held,
    recorded: Response<Bytes>,
    mut answer: Response<Buffered<RB>>,
) -> Result<Response<Buffered<RB>>, Lang> {
    let endpoint = held.asked().endpoint();
    if is_same(&recorded, &mut answer).await {
        held.settled();
        return Ok(answer);
    }
    tracing::warn!(
        endpoint,
        status = answer.status().as_u16(),
        recorded = recorded.status().as_u16(),
        "a handler answered other than it had committed; the client gets what was committed"
    );
    held.settled();
    Ok(recorded.map(|front| Buffered { front, rest: None, trailers: None }))
}

async fn is_same<RB: Body>(recorded: &Response<Bytes>, answer: &mut Response<Buffered<RB>>) -> bool {
    answer.status() == recorded.status()
        && caught(answer.body_mut().fill(recorded.body().len())).await == Some(Extent::Whole)
        && answer.body().front == recorded.body()
}
