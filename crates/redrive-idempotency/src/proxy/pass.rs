//! What is not guarded: it passes as it is, streaming both ways, and is never sent twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::connection::whole;
use super::live::{self, Live};
use super::patience::Passing;
use super::upstream::{Care, Trouble};
use super::{Answer, BoxError, Shared, hops};
use crate::problem::{Doubt, Problem, language};
use crate::word::REDRIVE_IDEMPOTENCY;

/// A service that never says "go on" gets the body after this long (RFC 9110 §10.1.1).
const GO_ON_WITHIN: Duration = Duration::from_secs(1);
/// Time is kept by what the service does; this is only so that a deadline can be named.
const FAR_AWAY: Duration = Duration::from_hours(24 * 365);

impl Shared {
    /// Passes a request on, and its answer back.
    pub(super) async fn pass(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        upgrade: Option<HeaderValue>,
        goes_on: bool,
    ) -> Response<Answer> {
        let one = live::one(&self.live, |live| &live.passing);
        let lang = language(request.headers());
        // Taken out in any case: what is sent on must not hold it.
        let ours = hyper::upgrade::on(&mut request);
        let wants_upgrade = upgrade.is_some();
        if let Some(protocol) = upgrade {
            hops::upgrade_to(request.headers_mut(), protocol);
        }
        let (parts, body) = request.into_parts();
        let (mut body, sent) = Passing::new(body, self.options.client_timeout);
        let told = Arc::new(Semaphore::new(0));
        if goes_on {
            let told = Arc::clone(&told);
            body = body.after(async move {
                tokio::select! {
                    _ = told.acquire() => {}
                    () = sleep(GO_ON_WITHIN) => {}
                }
            });
        }
        let mut request = Request::from_parts(parts, body.boxed_unsync());
        if goes_on {
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    told.close();
                }
            });
        }
        let sending = self.upstream.send(request, Care::Passing, Instant::now() + FAR_AWAY);
        let answered = tokio::select! {
            answered = sending => answered,
            () = self.out_of_time(&sent) => Err(Trouble::TimedOut),
        };
        match answered {
            Ok(answer) => {
                self.is_up();
                let tunnel = wants_upgrade.then_some((ours, &self.live));
                let (parts, body) = passed_back(answer, tunnel).into_parts();
                let body = body.map_err(BoxError::from).map_frame(move |frame| {
                    // Under way until the last of it has passed.
                    let _ = &one;
                    frame
                });
                Response::from_parts(parts, body.boxed_unsync())
            }
            Err(trouble) => whole(self.unanswered(&trouble, Doubt::Unguarded).response(lang)),
        }
    }

    /// Over when the service has had all of the request for as long as it may take.
    async fn out_of_time(&self, sent: &Semaphore) {
        // It is never given out: to wait for it is to wait for its closing.
        let _ = sent.acquire().await;
        sleep(self.options.upstream_timeout).await;
    }

    /// What a client is told when there is no answer; counted, and told to a person when it is new.
    pub(super) fn unanswered(&self, trouble: &Trouble, doubt: Doubt) -> Problem {
        match trouble {
            Trouble::NeverSent(error) => {
                self.is_down(&error.to_string());
                Problem::UpstreamUnreachable
            }
            Trouble::Lost(error) => {
                tracing::debug!(%error, "the service gave no whole answer");
                self.live.lost.fetch_add(1, Ordering::Relaxed);
                Problem::UpstreamLost(doubt)
            }
            Trouble::TimedOut => {
                self.live.timed_out.fetch_add(1, Ordering::Relaxed);
                Problem::UpstreamTimeout(doubt)
            }
        }
    }
}

/// An answer as the client gets it. When both sides want it, bytes pass from then on whatever they mean.
fn passed_back(
    mut answer: Response<Incoming>,
    tunnel: Option<(OnUpgrade, &Arc<Live>)>,
) -> Response<Incoming> {
    let theirs = hyper::upgrade::on(&mut answer);
    let protocol = hops::upgrade_of(answer.headers());
    hops::end_here(answer.headers_mut(), &[]);
    // A word for us, whether or not there was a key to say it about.
    answer.headers_mut().remove(REDRIVE_IDEMPOTENCY);
    *answer.version_mut() = Version::HTTP_11;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS
        && let (Some((ours, live)), Some(protocol)) = (tunnel, protocol)
    {
        hops::upgrade_to(answer.headers_mut(), protocol);
        let one = live::one(live, |live| &live.tunnels);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = (ours.await, theirs.await) {
                // Whoever ends it, and however: it is over.
                let _ = copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
            }
            drop(one);
        });
    }
    answer
}
