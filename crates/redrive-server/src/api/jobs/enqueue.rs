//! Enqueuing: the hot path of the API. A payload is taken as it was sent, looked at once and not copied.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use redrive::engine::Engine;
use redrive_idempotency::rules::KeyForm;
use redrive_idempotency::{CompleteError, Idem, Key};
use redrive_store::{Enqueued, JobId, NewJob, Origin, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::origin::check_origin;
use super::shapes::{Added, AddedMany};
use crate::Server;
use crate::body::Body;
use crate::caller::Caller;
use crate::problem::{Code, Problem};
use crate::shape;
use crate::told::has_half_pair;

/// What base64 is made of: nothing stands in its last bits.
const BASE64_PATTERN: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// What a job without a payload gets.
const NOTHING: &[u8] = b"null";
const JSON: (HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// A job to be added.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJob")]
pub(crate) struct JobFields {
    /// The queue; `default` when absent.
    #[schemars(with = "Option<shape::Name>")]
    queue: Option<String>,
    /// What kind of work it is, by which workers choose.
    #[schemars(required, with = "shape::Name")]
    kind: Option<String>,
    /// What the worker gets: any JSON of up to 1 MiB; `null` when absent.
    #[serde(default, deserialize_with = "as_sent")]
    #[schemars(with = "shape::Json")]
    payload: Option<Box<RawValue>>,
    /// What the worker gets, where that is not JSON.
    #[schemars(extend("contentEncoding" = "base64"), regex(pattern = BASE64_PATTERN))]
    payload_base64: Option<String>,
    /// Not before so many milliseconds have passed.
    delay_ms: Option<u64>,
    /// Not before this time.
    #[schemars(with = "Option<shape::Time>")]
    run_at: Option<Timestamp>,
    /// Higher comes first.
    #[schemars(range(min = -100, max = 100))]
    priority: Option<i32>,
    /// While an unfinished job of the queue has this key, that one is answered and nothing is added.
    #[schemars(with = "Option<shape::Name>")]
    unique_key: Option<String>,
    /// The caller's own id for it.
    #[schemars(with = "Option<shape::Name>")]
    caller_id: Option<String>,
    /// The name of its policy.
    #[schemars(with = "Option<shape::Name>")]
    policy: Option<String>,
    /// What it overrides in that policy, in the words of a configuration: `{"max_retries": 5, "backoff": {"type": "linear"}}`.
    #[schemars(with = "Option<shape::Object>")]
    overrides: Option<Box<RawValue>>,
    /// How long one attempt may take.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// When it must be over.
    #[schemars(with = "Option<shape::Time>")]
    deadline_at: Option<Timestamp>,
    /// The key that its effects carry, as it is written here; none of the form that redrive makes itself. When absent: the request's Idempotency-Key, or with a token a UUID that is
    /// made from both; without either one made from its id.
    #[schemars(with = "Option<shape::Name>")]
    idempotency_key: Option<String>,
    /// What it goes to, by which it is protected together with everything else that goes there. The keys of a token that is limited to
    /// queues are its queue's own: `QUEUE/KEY`.
    #[schemars(with = "Option<shape::Name>")]
    target: Option<String>,
    /// In place of everything else: many.
    #[schemars(skip)]
    jobs: Option<Vec<JobFields>>,
}

/// One job, or many.
pub(crate) enum EnqueueBody {}

impl JsonSchema for EnqueueBody {
    fn schema_name() -> Cow<'static, str> {
        "NewJobOrJobs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<JobFields>();
        json_schema!({ "anyOf": [one, {
            "type": "object",
            "description": "Many jobs: all of them are added, or none.",
            "properties": { "jobs": { "type": "array", "items": one, "maxItems": 1_000 } },
            "required": ["jobs"],
            "additionalProperties": false,
        }]})
    }
}

/// A payload of `null` is a payload.
fn as_sent<'de, D: Deserializer<'de>>(read: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(read).map(Some)
}

/// The queue that is named, or none. An empty text is no name, and means no other queue.
pub(in crate::api) fn named(queue: Option<String>) -> Result<String, Problem> {
    match queue {
        Some(queue) if queue.is_empty() => {
            Err(Problem::new(Code::Invalid, "refused.name").with("field", "queue").at("queue"))
        }
        queue => Ok(queue.unwrap_or_default()),
    }
}

impl JobFields {
    /// Whether nothing stands beside the list.
    fn is_only_jobs(&self) -> bool {
        let texts =
            [&self.queue, &self.kind, &self.payload_base64, &self.unique_key, &self.caller_id, &self.policy];
        texts.iter().all(|text| text.is_none())
            && [&self.idempotency_key, &self.target].iter().all(|text| text.is_none())
            && self.payload.is_none()
            && self.overrides.is_none()
            && [self.run_at, self.deadline_at].iter().all(Option::is_none)
            && [self.delay_ms, self.timeout_ms].iter().all(Option::is_none)
            && self.priority.is_none()
    }

    /// The job that they say.
    fn job(self, now: Timestamp) -> Result<NewJob, Problem> {
        if self.jobs.is_some() {
            return Err(Problem::new(Code::Invalid, "jobs.only").at("jobs"));
        }
        let kind = self.kind.ok_or_else(|| {
            Problem::new(Code::Invalid, "json.missing_field").with("name", "kind").at("kind")
        })?;
        let payload = payload(self.payload, self.payload_base64)?;
        let run_at = match (self.delay_ms, self.run_at) {
            (Some(_), Some(_)) => return Err(Problem::new(Code::Invalid, "jobs.when_twice").at("run_at")),
            (Some(delay), None) => Some(now.after(Duration::from_millis(delay))),
            (None, run_at) => run_at,
        };
        if self.idempotency_key.as_deref().is_some_and(|key| JobId::of_idempotency_key(key).is_some()) {
            // Those are made from the number of a job, and the next numbers are no secret.
            return Err(Problem::new(Code::Invalid, "jobs.own_key").at("idempotency_key"));
        }
        if self.timeout_ms == Some(0) {
            return Err(Problem::new(Code::Invalid, "jobs.no_time").at("timeout_ms"));
        }
        Ok(NewJob {
            queue: named(self.queue)?,
            kind,
            payload,
            run_at,
            priority: self.priority.unwrap_or(0),
            unique_key: self.unique_key,
            caller_id: self.caller_id,
            policy: self.policy,
            overrides: self.overrides.map(|overrides| String::from(Box::<str>::from(overrides))),
            idempotency_key: self.idempotency_key,
            timeout: self.timeout_ms.map(Duration::from_millis),
            deadline_at: self.deadline_at,
            origin: Origin::Api,
            target: self.target,
            ..NewJob::default()
        })
    }
}

/// The payload as it was sent. Half of a surrogate pair is JSON by the letter, and no reader takes it.
fn payload(json: Option<Box<RawValue>>, base64: Option<String>) -> Result<Vec<u8>, Problem> {
    match (json, base64) {
        (Some(_), Some(_)) => Err(Problem::new(Code::Invalid, "jobs.payload_twice").at("payload_base64")),
        (None, None) => Ok(NOTHING.to_vec()),
        (None, Some(text)) => {
            BASE64.decode(text).map_err(|_| Problem::new(Code::Invalid, "jobs.base64").at("payload_base64"))
        }
        (Some(json), None) => {
            let text = String::from(Box::<str>::from(json));
            if has_half_pair(&text) {
                return Err(Problem::new(Code::Invalid, "jobs.half_pair").at("payload"));
            }
            Ok(text.into_bytes())
        }
    }
}

/// Says which of many a problem is about.
fn in_batch(problem: Problem, place: usize) -> Problem {
    let field =
        problem.field().map_or_else(|| format!("jobs[{place}]"), |field| format!("jobs[{place}].{field}"));
    problem.at(field)
}

pub(super) async fn enqueue(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    idem: Option<Idem>,
    Body(body): Body<JobFields>,
) -> Result<Response, Problem> {
    let engine = server.engine();
    let now = engine.now();
    match body.jobs {
        Some(_) if !body.is_only_jobs() => Err(Problem::new(Code::Invalid, "jobs.only").at("jobs")),
        Some(many) => {
            let most = server.settings().max_batch;
            if many.len() > most {
                let problem = Problem::new(Code::Invalid, "refused.many").with("count", many.len());
                return Err(problem.with("most", most).at("jobs"));
            }
            let mut jobs = Vec::with_capacity(many.len());
            for (place, fields) in many.into_iter().enumerate() {
                let job = fields.job(now).and_then(|job| allowed(&server, &caller, job));
                jobs.push(job.map_err(|problem| in_batch(problem, place))?);
            }
            add(engine, now, jobs, idem.as_ref(), told_many).await.map_err(|(place, problem)| match place {
                Some(place) => in_batch(problem, place),
                None => problem,
            })
        }
        None => {
            let mut job = allowed(&server, &caller, body.job(now)?)?;
            if job.idempotency_key.is_none()
                && let Ok(Some(key)) = Key::from_headers(&headers, KeyForm::Any)
            {
                // The key travels: request, job, retries, outbound call (R-I8).
                job.idempotency_key = Some(caller.travelling_key(engine.store().store_id(), key.as_str()));
            }
            add(engine, now, vec![job], idem.as_ref(), told_one).await.map_err(|(_, problem)| problem)
        }
    }
}

/// A job that this caller may add here.
pub(in crate::api) fn allowed(server: &Server, caller: &Caller, job: NewJob) -> Result<NewJob, Problem> {
    if !caller.reaches(job.queue()) {
        return Err(Problem::new(Code::Forbidden, "token.queue").with("queue", job.queue()).at("queue"));
    }
    check_origin(server, &job)?;
    Ok(caller.with_own_target(job))
}

/// Adds jobs and makes the answer of what was added. With a key, both and that it was answered are one transaction: whenever the
/// server dies, the request was done and is answered again, or was not done.
async fn add(
    engine: &Engine,
    now: Timestamp,
    jobs: Vec<NewJob>,
    idem: Option<&Idem>,
    told: fn(&[Enqueued]) -> http::Response<Bytes>,
) -> Result<Response, (Option<usize>, Problem)> {
    engine.check_jobs(&jobs).map_err(|(place, error)| (Some(place), error.into()))?;
    let answer = match idem {
        None => {
            let added = engine.store().enqueue(now, jobs).await.map_err(|error| (None, error.into()))?;
            told(&added)
        }
        Some(idem) => idem.enqueue(now, jobs, told).await.map_err(|error| (None, not_completed(error)))?,
    };
    Ok(answer.map(axum::body::Body::from))
}

fn not_completed(error: CompleteError) -> Problem {
    match error {
        CompleteError::Store(error) => error.into(),
        // Whoever has the key now does it, or has done it: nothing was done here.
        CompleteError::Lost => Problem::of(Code::Conflict),
        error => {
            tracing::error!(%error, "a request cannot be completed together with its jobs");
            Problem::of(Code::Internal)
        }
    }
}

fn told_one(added: &[Enqueued]) -> http::Response<Bytes> {
    let Some(added) = added.first().copied() else { return written(true, &AddedMany { items: Vec::new() }) };
    let mut response = written(added.existing, &Added::from(added));
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/jobs/{}", added.id)) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

fn told_many(added: &[Enqueued]) -> http::Response<Bytes> {
    let all_there = added.iter().all(|added| added.existing);
    written(all_there, &AddedMany { items: added.iter().copied().map(Added::from).collect() })
}

fn written(all_there: bool, told: &impl Serialize) -> http::Response<Bytes> {
    // Ids and flags can always be written as JSON.
    let body = serde_json::to_vec(told).unwrap_or_default();
    let mut response = http::Response::new(Bytes::from(body));
    *response.status_mut() = if all_there { StatusCode::OK } else { StatusCode::CREATED };
    let (name, value) = JSON;
    response.headers_mut().insert(name, value);
    response
}
