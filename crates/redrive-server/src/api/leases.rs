//! Leases over HTTP: work is asked for, kept and ended by workers of any language (R-D2, R-D3).
//!
//! Whoever works says what happened; what follows from it is the engine's decision. A batch is one transaction, and an item that
//! is no good is answered for itself: its neighbours are done.

mod settle;
mod shapes;

use std::time::Duration;

use axum::Json;
use axum::body::Body as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use redrive::engine::{HandedOut, HeldLease, RemoteRequest};
use redrive_policy::Lang;
use redrive_store::{MAX_NAME_BYTES, Refusal, Renewal};
use serde_json::value::RawValue;

use super::jobs::not_alerts;
use crate::Server;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::language::Language;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::remote::HandingOut;
use crate::route::Route;
use crate::told::as_json;
use shapes::{
    DEFAULT_LEASE, ExtendBody, ExtendItem, Extended, ExtendedItem, ItemProblem, LEASE_FOR, LeaseBody, Leased,
    LeasedItem, LeasedPayload, MOST_KINDS, SettleBody, SettledItems,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/queues/{queue}/lease", Scope::Work, "lease", "Hands out jobs that are due.", lease)
            .takes::<LeaseBody>()
            .unguarded()
            .answers::<Leased>(200, "What was due; nothing when nothing was in time."),
        Route::post("/v1/leases/settle", Scope::Work, "settle", "Ends attempts.", settle)
            .takes::<SettleBody>()
            .answers::<SettledItems>(200, "What became of each, in their order."),
        Route::post("/v1/leases/extend", Scope::Work, "extend", "Keeps leases: a heartbeat.", extend)
            .takes::<ExtendBody>()
            .unguarded()
            .answers::<Extended>(200, "What became of each, in their order."),
    ]
}

async fn lease(
    State(server): State<Server>,
    caller: Caller,
    Path(queue): Path<String>,
    Body(body): Body<LeaseBody>,
) -> Result<Response, Problem> {
    if !caller.reaches(&queue) {
        return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", queue));
    }
    not_alerts(&queue, "queue")?;
    let request = asked(&server, queue, body)?;
    let remote = server.remote().await?;
    let handed = tokio::select! {
        biased;
        handed = remote.lease(request) => handed?,
        // What the store is about to hand out goes back with the request that is dropped here.
        () = server.shutdown().draining() => Vec::new(),
    };
    let items: Vec<LeasedItem<'_>> = handed.iter().map(told).collect();
    let answer = serde_json::to_vec(&Leased { items }).map_err(|_| Problem::of(Code::Internal))?;
    let held = handed.into_iter().map(|handed| handed.held).collect();
    let answer = Answer::new(HandingOut::new(Bytes::from(answer), remote, held));
    Ok(([(header::CONTENT_TYPE, "application/json")], answer).into_response())
}

/// What a body asks for, within what this server gives.
fn asked(server: &Server, queue: String, body: LeaseBody) -> Result<RemoteRequest, Problem> {
    let LeaseBody { max, lease_ms, wait_ms, kinds } = body;
    let settings = server.settings();
    if queue.len() > MAX_NAME_BYTES {
        // No queue is called so, and nobody waits for its jobs.
        return Err(Problem::from(&Refusal::BadName { what: "queue", name: String::new() }));
    }
    let max = max.unwrap_or(1);
    if max == 0 || max > settings.max_batch {
        return Err(Problem::new(Code::Invalid, "leases.max").with("most", settings.max_batch).at("max"));
    }
    let lease_for = lease_ms.map_or(DEFAULT_LEASE, Duration::from_millis);
    if !LEASE_FOR.contains(&lease_for) {
        let (least, most) = (LEASE_FOR.start().as_millis(), LEASE_FOR.end().as_millis());
        return Err(Problem::new(Code::Invalid, "leases.lease_ms")
            .with("least", least)
            .with("most", most)
            .at("lease_ms"));
    }
    let kinds = kinds.unwrap_or_default();
    if kinds.len() > MOST_KINDS {
        return Err(Problem::new(Code::Invalid, "leases.kinds").with("most", MOST_KINDS).at("kinds"));
    }
    let wait = Duration::from_millis(wait_ms.unwrap_or(0)).min(settings.max_wait);
    Ok(RemoteRequest { queues: vec![queue], kinds, max, lease_for, wait })
}

/// A job as its worker gets it.
fn told(handed: &HandedOut) -> LeasedItem<'_> {
    let HandedOut { lease, leased, idempotency_key, .. } = handed;
    let job = &leased.job;
    // A payload is passed on as it is: reading it is the worker's business.
    let payload = match as_json(&job.payload) {
        Some(json) => LeasedPayload::Json(json),
        None => LeasedPayload::Bytes(&job.payload),
    };
    LeasedItem {
        lease,
        id: job.id.to_string(),
        queue: &job.queue,
        kind: &job.kind,
        payload: payload.json(),
        payload_base64: payload.base64(),
        attempt: leased.attempt,
        retries: leased.retries,
        hint: leased.hint.as_deref(),
        idempotency_key,
        caller_id: job.caller_id.as_deref(),
        fence: leased.token.fence,
        enqueued_at: job.enqueued_at.to_string(),
        expires_at: leased.expires_at.to_string(),
        deadline_at: job.deadline_at.map(|at| at.to_string()),
        timeout_ms: job.timeout.map(redrive_policy::round_to_millis),
    }
}

async fn settle(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Body(body): Body<SettleBody>,
) -> Result<Json<SettledItems>, Problem> {
    few_enough(&server, body.items.len())?;
    let remote = server.remote().await?;
    settle::settle(remote, &caller, &body.items, lang).await.map(Json)
}

async fn extend(
    State(server): State<Server>,
    caller: Caller,
    Language(lang): Language,
    Body(body): Body<ExtendBody>,
) -> Result<Json<Extended>, Problem> {
    few_enough(&server, body.items.len())?;
    let remote = server.remote().await?;
    let read = |item: &RawValue| {
        let item: ExtendItem = shapes::read(item).map_err(|problem| ItemProblem::told(&problem, lang))?;
        held(remote.read(&item.lease), &caller, lang)
    };
    let read: Vec<Result<HeldLease, ItemProblem>> = body.items.iter().map(|item| read(item)).collect();
    let good: Vec<HeldLease> = read.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
    let now = server.engine().now();
    let renewed = if good.is_empty() { Vec::new() } else { remote.extend(&good).await? };
    let mut renewed = good.into_iter().zip(renewed);
    let items = read.into_iter().map(|item| match item {
        Err(problem) => ExtendedItem::refused(problem),
        Ok(_) => renewed.next().map_or_else(ExtendedItem::lost, |(held, renewal)| match renewal {
            Renewal::Extended => ExtendedItem::until("extended", now.after(held.lease_for)),
            Renewal::CancelRequested => ExtendedItem::until("cancel_requested", now.after(held.lease_for)),
            Renewal::Lost => ExtendedItem::lost(),
        }),
    });
    Ok(Json(Extended { items: items.collect() }))
}

/// A lease that was shown, if it is one and this caller may have it.
fn held(read: Option<HeldLease>, caller: &Caller, lang: Lang) -> Result<HeldLease, ItemProblem> {
    let held = read.ok_or_else(|| ItemProblem::no_lease(lang))?;
    if caller.reaches(&held.queue) {
        return Ok(held);
    }
    Err(ItemProblem::told(&Problem::new(Code::Forbidden, "leases.reach").at("lease"), lang))
}

fn few_enough(server: &Server, count: usize) -> Result<(), Problem> {
    let most = server.settings().max_batch;
    if count > most {
        return Err(Problem::new(Code::Invalid, "leases.items")
            .with("most", most)
            .with("count", count)
            .at("items"));
    }
    Ok(())
}
