//! Events: what happened, as pages of JSON or as a stream that goes on (R-E3).
//!
//! `GET /v1/events` answers a page; with `Accept: text/event-stream` it is the stream itself.

mod follow;
mod reach;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, HeaderName};
use http::{HeaderMap, HeaderValue};
use redrive_policy::{EscalationLevel, parse_duration};
use redrive_store::filter::{EventField, Filter};
use redrive_store::{Event, EventFilter, EventSeq, EventStatus, JobId, JobState, Order, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::query::Query;
use crate::route::Route;
use crate::shape;
use reach::Reach;

/// By which a client that was cut off says where it was.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How many events a page has unless somebody says, and at most.
const DEFAULT_LIMIT: u32 = 100;
const MOST: u32 = 1_000;
/// How many are looked at for a page, and how many of them at once.
const LOOKED_AT: u32 = 5_000;
const AT_ONCE: u32 = 500;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/events",
            Scope::Read,
            "list_events",
            "What happened; with Accept: text/event-stream, what happens from now on or behind Last-Event-ID.",
            events,
        )
        .asks::<EventsQuery>()
        .answers::<shape::Page<EventShape>>(200, "Events.")
        .answers_text(200, "text/event-stream", "Events as they come.")
        .problems(&[Code::InvalidFilter, Code::Draining]),
        Route::get("/v1/events/{id}", Scope::Read, "get_event", "Everything that is known about an event.", event)
            .place::<shape::EventId>("id")
            .answers::<DetailShape>(200, "The event: the contract redrive/detail.v1."),
    ]
}

/// Which events.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only those that match, such as `status=retrying and error~timeout` (docs/filter.md).
    #[serde(rename = "where")]
    filter: Option<String>,
    /// Only of these types; several are separated by commas.
    #[serde(rename = "type")]
    types: Option<String>,
    /// Only in these states: `pending`, `running`, `success`, `failed`, `retrying`, `dead_letter`; several are separated by commas.
    status: Option<String>,
    /// Only from this source.
    source: Option<String>,
    /// Only with one of these tags; several are separated by commas.
    tag: Option<String>,
    /// Only with this caller's id.
    caller_id: Option<String>,
    /// Only of this job.
    #[schemars(with = "Option<shape::JobId>")]
    job: Option<JobId>,
    /// Not before: a length of time such as 1h, or a time of RFC 3339.
    since: Option<String>,
    /// `newest` first, or `oldest`.
    order: Option<Wish>,
    /// At most so many in a page; it may have fewer, or none, and yet not be the last.
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// For a stream: the id of the last event that was seen; like the header Last-Event-ID.
    last_event_id: Option<String>,
}

/// From which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "EventOrder")]
enum Wish {
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// An event as the API tells it.
#[derive(Debug, Serialize)]
pub(crate) struct Told<'a> {
    seq: i64,
    job_id: Option<JobId>,
    #[serde(flatten)]
    event: &'a Event,
}

impl Told<'_> {
    fn new(event: &Event) -> Told<'_> {
        Told { seq: event.seq.0, job_id: event.job, event }
    }
}

/// An event as this caller may see it: what an attempt wrote may hold what it was given, and is shown to who may see that.
pub(crate) fn seen_by(caller: &Caller, mut event: Event) -> Event {
    if event.job.is_some()
        && !caller.may(Scope::ReadPayload)
        && let Some(data) = event.data.as_object_mut()
    {
        data.remove("output");
    }
    event
}

/// An event (R-E2).
#[derive(JsonSchema)]
#[schemars(rename = "Event")]
#[allow(dead_code)] // Only its schema is used.
pub(crate) struct EventShape {
    /// Its place in the stream; in a story it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    seq: Option<i64>,
    /// The job that it is about; in a story it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::JobId>")]
    job_id: Option<String>,
    event_id: String,
    #[schemars(with = "shape::Time")]
    timestamp: String,
    event_type: String,
    source: String,
    data: shape::Json,
    parent_event_id: Option<String>,
    related_hypothesis_id: Option<String>,
    tags: Vec<String>,
    latency_ms: Option<u64>,
    exit_code: Option<i32>,
    #[schemars(range(min = 1, max = 5))]
    importance: u8,
    #[schemars(with = "String")]
    status: String,
    error_info: Option<shape::Object>,
    retry_info: Option<shape::Object>,
    recovery_actions: Vec<shape::Object>,
}

impl EventsQuery {
    /// Which events of the stream, and which of those.
    fn filters(&self, now: Timestamp) -> Result<(EventFilter, Option<Filter<EventField>>), Problem> {
        let list = |text: &Option<String>| -> Vec<String> {
            let all = text.iter().flat_map(|text| text.split(','));
            all.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
        };
        let status = |name: String| {
            EventStatus::from_name(&name).ok_or_else(|| {
                let names = EventStatus::ALL.map(EventStatus::name).join(", ");
                Problem::new(Code::Invalid, "events.status").with("names", names).at("status")
            })
        };
        let filter = EventFilter {
            types: list(&self.types),
            source: self.source.clone(),
            statuses: list(&self.status).into_iter().map(status).collect::<Result<_, _>>()?,
            tags: list(&self.tag),
            caller_id: self.caller_id.clone(),
            job: self.job,
            since: self.since.as_deref().map(|since| begins(since, now)).transpose()?,
            ..EventFilter::default()
        };
        let also = self.filter.as_deref().filter(|text| !text.trim().is_empty());
        let also = also.map(Filter::parse).transpose().map_err(|error| Problem::from(error).at("where"))?;
        Ok((filter, also))
    }
}

/// So long ago, or this point in time.
pub(super) fn begins(since: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    let ago = parse_duration(since).ok().map(|ago| now.before(ago));
    ago.or_else(|| since.parse().ok()).ok_or_else(|| Problem::new(Code::Invalid, "events.since").at("since"))
}

fn place(text: &str, field: &'static str) -> Result<EventSeq, Problem> {
    let digits = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let place = digits.then(|| text.parse().ok()).flatten();
    place.map(EventSeq).ok_or_else(|| Problem::new(Code::Invalid, "events.cursor").at(field))
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accept.flat_map(|accept| accept.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

async fn events(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Response, Problem> {
    let engine = server.engine();
    let (filter, also) = query.filters(engine.now())?;
    let mut reach = Reach::new(&server, &caller);
    if wants_stream(&headers) {
        let header = headers.get(LAST_EVENT_ID).map(HeaderValue::to_str);
        let last = match (header, &query.last_event_id) {
            (Some(Ok(text)), _) => Some(place(text, "Last-Event-ID")?),
            (Some(Err(_)), _) => return Err(Problem::new(Code::Invalid, "events.cursor").at("Last-Event-ID")),
            (None, Some(text)) => Some(place(text, "last_event_id")?),
            (None, None) => None,
        };
        return follow::follow(&server, caller, reach, filter, also, last).await;
    }
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::new(Code::Invalid, "events.limit").with("most", MOST).at("limit"));
    }
    let behind = query.cursor.as_deref().map(|cursor| place(cursor, "cursor")).transpose()?;
    let order = match query.order {
        Some(Wish::Oldest) => Order::OldestFirst,
        Some(Wish::Newest) | None => Order::NewestFirst,
    };
    let (after, before) = if order == Order::OldestFirst { (behind, None) } else { (None, behind) };
    let mut search = engine.search_events(EventFilter { order, after, before, ..filter }, also);
    let mut found = Vec::new();
    let wanted = limit as usize;
    // One more than is told tells whether there is a next page. Where most are not wanted, or not in reach, many are looked at for one;
    // but never all there are.
    let at_once = if query.filter.is_none() && caller.reaches_all() { limit + 1 } else { AT_ONCE };
    let mut looked_at = 0;
    while found.len() <= wanted && looked_at < LOOKED_AT && !search.is_over() {
        looked_at += at_once;
        for event in search.look_at(at_once).await? {
            if reach.sees(&event).await? {
                found.push(seen_by(&caller, event));
            }
        }
    }
    let next = if found.len() > wanted {
        found.truncate(wanted);
        found.last().map(|last| last.seq)
    } else {
        search.place().filter(|_| !search.is_over())
    };
    let next = next.map(|place| place.0.to_string());
    let items = found.iter().map(Told::new).collect();
    Ok(Json(shape::Page { items, next }).into_response())
}

/// An event, and what it is about.
#[derive(Debug, Serialize)]
struct Detail<'a> {
    schema: &'static str,
    id: &'a str,
    /// Whether that job is a dead letter now.
    dead_letter: bool,
    /// How far up that letter has gone.
    level: Option<EscalationLevel>,
    #[serde(flatten)]
    told: Told<'a>,
}

/// An event, and the job that it is about: the contract redrive/detail.v1.
#[derive(JsonSchema)]
#[schemars(rename = "EventDetail")]
#[allow(dead_code)] // Only its schema is used.
struct DetailShape {
    schema: String,
    id: String,
    /// Whether its job is a dead letter now.
    dead_letter: bool,
    /// How far up that letter has gone.
    level: Option<u8>,
    #[serde(flatten)]
    event: EventShape,
}

async fn event(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let unknown = || Problem::new(Code::NotFound, "events.unknown").with("id", &id);
    let store = server.engine().store();
    let event = store.event(id.clone()).await?.ok_or_else(unknown)?;
    if !Reach::new(&server, &caller).sees(&event).await? {
        return Err(unknown());
    }
    let job = match event.job {
        Some(job) => store.job(job).await?,
        None => None,
    };
    let level = job.and_then(|job| match job.state {
        JobState::Dead(letter) => Some(EscalationLevel::of(letter.cause, letter.retryable)),
        _ => None,
    });
    let event = seen_by(&caller, event);
    let told = Told::new(&event);
    let detail = Detail {
        schema: "redrive/detail.v1",
        id: &event.event_id,
        dead_letter: level.is_some(),
        level,
        told,
    };
    Ok(Json(detail).into_response())
}
