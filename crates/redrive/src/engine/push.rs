//! Push: a service that cannot ask for work is called for each job, with a signed POST, and its answer decides (Standard Webhooks).
//!
//! An endpoint is a notice on the board, so that every server on the store pushes to it, or stands in a server's own configuration.
//! `wish` sets one up, `run` keeps a worker for each, `send` is what such a worker does, `answer` reads what the service says, `sign`
//! proves who we are.
//! Secrets go in and are used; nobody is ever shown them again.

mod answer;
mod run;
mod send;
mod sign;
mod wish;

use std::fmt;
use std::time::Duration;

use redrive_store::{NewEvent, Notice, NoticeChange, Origin, Posted};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use run::PushClients;
pub use sign::{BadSecret, PushSecret};
pub use wish::{PushProblem, PushWish};

use super::{Engine, EngineError};
use crate::http_call::shown_webhook;

/// The space of the board in which endpoints are kept.
const SPACE: &str = "push";
/// How many endpoints one store has at most: each is a worker in every server.
pub const MOST_ENDPOINTS: u32 = 200;
/// How many secrets an endpoint may have at a time, while they are exchanged.
const MOST_SECRETS: usize = 4;
/// How many kinds it may name.
const MOST_KINDS: usize = 100;
/// How often a change that somebody else outran is tried again.
const TRIES: usize = 10;

/// A service that is called for jobs of a queue. Its address is often a secret: only whom it leads to is ever told.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushEndpoint {
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// The queue whose jobs it gets.
    pub queue: String,
    /// Only these kinds; none: all of the queue.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Where it is called.
    pub url: String,
    /// The secrets that every call is signed with, the newest first.
    pub secrets: Vec<PushSecret>,
    /// How many calls are under way at a time.
    pub concurrency: usize,
    /// How many jobs go into one call; more than one needs kinds.
    pub batch: usize,
    /// How long a call may take.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// Whether it is called at all.
    pub enabled: bool,
    /// Why it is not, when it was not a person's wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_why: Option<String>,
    /// Where it came from: what was set over the API may not reach private addresses.
    #[serde(with = "origin")]
    pub origin: Origin,
}

impl PushEndpoint {
    /// How many calls are under way at a time, unless it is said.
    pub const CONCURRENCY: usize = 4;
    /// How many jobs go into one call, unless it is said.
    pub const BATCH: usize = 1;
    /// How long a call may take, unless it is said.
    pub const TIMEOUT: Duration = Duration::from_secs(15);

    /// An endpoint for this queue at this address, with a fresh secret.
    pub fn new(
        name: impl Into<String>,
        queue: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<PushEndpoint, EngineError> {
        Ok(PushEndpoint {
            name: name.into(),
            queue: queue.into(),
            kinds: Vec::new(),
            url: url.into(),
            secrets: vec![PushSecret::fresh()?],
            concurrency: PushEndpoint::CONCURRENCY,
            batch: PushEndpoint::BATCH,
            timeout: PushEndpoint::TIMEOUT,
            enabled: true,
            disabled_why: None,
            origin: Origin::Local,
        })
    }

    /// What is wrong with it, if something is.
    pub fn check(&self) -> Result<(), BadEndpoint> {
        let bad = |field: &'static str, why: String| Err(BadEndpoint { field, why });
        if !is_name(&self.name) {
            return bad("name", "may have 1 to 100 letters, digits, - and _".to_owned());
        }
        if self.queue.is_empty() || self.queue.len() > redrive_store::MAX_NAME_BYTES {
            return bad("queue", "must name a queue".to_owned());
        }
        match Url::parse(&self.url) {
            Err(error) => return bad("url", format!("is no address: {error}")),
            Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
                return bad("url", "must be http:// or https://".to_owned());
            }
            Ok(_) if self.url.contains('…') => {
                return bad("url", "must be the whole address, not what is shown of it".to_owned());
            }
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                return bad("url", "must not hold a name or a password: calls are signed".to_owned());
            }
            Ok(_) => {}
        }
        if !(1..=MOST_SECRETS).contains(&self.secrets.len()) {
            return bad("secrets", format!("must be 1 to {MOST_SECRETS}"));
        }
        if !(1..=256).contains(&self.concurrency) {
            return bad("concurrency", "must be 1 to 256".to_owned());
        }
        if !(1..=1_000).contains(&self.batch) {
            return bad("batch", "must be 1 to 1000".to_owned());
        }
        if self.batch > 1 && self.kinds.is_empty() {
            return bad("kinds", "must be named when a call holds more than one job".to_owned());
        }
        if self.kinds.len() > MOST_KINDS {
            return bad("kinds", format!("may name at most {MOST_KINDS}"));
        }
        if !(Duration::from_secs(1)..=Duration::from_mins(15)).contains(&self.timeout) {
            return bad("timeout_ms", "must be 1,000 to 900,000".to_owned());
        }
        Ok(())
    }

    fn read(notice: &Notice) -> Option<PushEndpoint> {
        let read: PushEndpoint = serde_json::from_str(&notice.value)
            .inspect_err(|error| tracing::warn!(name = notice.name, %error, "a push endpoint cannot be read"))
            .ok()?;
        Some(PushEndpoint { name: notice.name.clone(), ..read })
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=100).contains(&name.len()) && name.bytes().all(fits)
}

/// What is wrong with an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct BadEndpoint {
    /// In which field.
    pub field: &'static str,
    /// What.
    pub why: String,
}

impl Engine {
    /// Every endpoint on the board, by name.
    pub async fn push_endpoints(&self) -> Result<Vec<PushEndpoint>, EngineError> {
        let notices = self.store().notices(SPACE.to_owned(), None, MOST_ENDPOINTS).await?;
        Ok(notices.iter().filter_map(PushEndpoint::read).collect())
    }

    /// The endpoint of that name.
    pub async fn push_endpoint(&self, name: &str) -> Result<Option<PushEndpoint>, EngineError> {
        let notice = self.store().notice(SPACE.to_owned(), name.to_owned()).await?;
        Ok(notice.as_ref().and_then(PushEndpoint::read))
    }

    /// Changes the endpoint of that name to what `change` makes of the one that is there; nothing takes it down. Answers what it is
    /// now. When somebody else changes it at the same time, `change` is asked again.
    pub async fn change_push_endpoint<E: From<EngineError>>(
        &self,
        name: &str,
        change: impl FnMut(Option<PushEndpoint>) -> Result<Option<PushEndpoint>, E>,
    ) -> Result<Option<PushEndpoint>, E> {
        self.change_push(name, Vec::new(), change).await
    }

    async fn change_push<E: From<EngineError>>(
        &self,
        name: &str,
        events: Vec<NewEvent>,
        mut change: impl FnMut(Option<PushEndpoint>) -> Result<Option<PushEndpoint>, E>,
    ) -> Result<Option<PushEndpoint>, E> {
        for _ in 0..TRIES {
            let notice =
                self.store().notice(SPACE.to_owned(), name.to_owned()).await.map_err(EngineError::from)?;
            let wanted = change(notice.as_ref().and_then(PushEndpoint::read))?;
            if wanted.is_none() && notice.is_none() {
                return Ok(None);
            }
            let value =
                wanted.as_ref().map(serde_json::to_string).transpose().map_err(EngineError::Payload)?;
            let change = NoticeChange {
                space: SPACE.to_owned(),
                name: name.to_owned(),
                seen: notice.map(|notice| notice.version),
                value,
                due_at: None,
            };
            let posted = self.store().post(self.now(), vec![change], Vec::new(), events.clone()).await;
            if let Posted::Done { .. } = posted.map_err(EngineError::from)? {
                return Ok(wanted);
            }
        }
        Err(EngineError::Outrun(format!("push/{name}")).into())
    }

    /// The service said that it is gone for good: it is called no more, and people are told.
    async fn disable_push(&self, endpoint: &PushEndpoint, why: &str) -> Result<(), EngineError> {
        let event = NewEvent {
            event_type: "push_disabled".to_owned(),
            source: "redrive".to_owned(),
            data: json!({ "endpoint": endpoint.name, "queue": endpoint.queue, "why": why }),
            importance: Some(4),
            // It waits for a person, and is no work that failed.
            status: Some(redrive_store::EventStatus::Pending),
            ..NewEvent::default()
        };
        let mut on_the_board = false;
        let events = vec![event.clone()];
        self.change_push::<EngineError>(&endpoint.name, events, |there| {
            on_the_board = there.is_some();
            // Somebody may have put up another one meanwhile, which has said nothing yet.
            Ok(there.map(|there| {
                if there.url != endpoint.url {
                    return there;
                }
                PushEndpoint { enabled: false, disabled_why: Some(why.to_owned()), ..there }
            }))
        })
        .await?;
        if !on_the_board {
            self.store().append(self.now(), vec![event]).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for PushEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushEndpoint")
            .field("name", &self.name)
            .field("queue", &self.queue)
            .field("kinds", &self.kinds)
            .field("url", &shown_webhook(&self.url))
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for PushEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} → {})", self.name, self.queue, shown_webhook(&self.url))
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(redrive_policy::round_to_millis(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

mod origin {
    use redrive_store::Origin;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
        origin.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
        // What nobody can read may do the least.
        Ok(if String::deserialize(deserializer)? == "local" { Origin::Local } else { Origin::Api })
    }
}
