//! Alerts: people are told when something is wrong, and when it is over (R-C5).
//!
//! Every ten seconds, and right after a letter was written, whoever maintains the store looks at its numbers (`facts`), asks the
//! rules what they find (`rules`), and what that means for what people know already (`turn`). What they are told becomes jobs of our
//! own in the transaction that remembers it, so that each message is made once, by one engine, and delivered under a policy as any
//! work is (`deliver`). What is remembered is remembered for each receiver: processes may have receivers and thresholds of their own. Letters of those jobs count for no rule: an alert never raises an alert.

mod deliver;
mod facts;
mod message;
mod rules;
mod silence;
mod turn;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_policy::{AlertBy, AlertReceiver, AlertSettings};
use redrive_store::{EventStatus, JobId, NewEvent, NewJob, Notice, NoticeChange, Posted, Timestamp, Trouble};
use serde_json::json;

pub use deliver::AlertExecutor;
pub use rules::{AlertRule, AlertUnit, Finding};
pub use silence::{NewSilence, Silence};

use super::metrics::ALERT_QUEUE;
use super::{Engine, EngineError};
use crate::http_call::shown_webhook;
use message::Message;
use turn::State;

/// The kind of messages.
pub const ALERT_KIND: &str = "alert";
/// What a message carries, so that it is known when it comes back to us.
pub const ALERT_HOP: &str = "redrive-alert-hop";

/// Where it stands on the board what each receiver knows, under its name.
const SPACE: &str = "alert";
/// How many of them are looked at to show how rules stand.
const MOST_RECEIVERS: u32 = 1_000;
/// How often the numbers are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What nobody has changed for so long is looked after by nobody who could read it.
const LEFT_ALONE: Duration = Duration::from_mins(2);
/// How many notices are remembered of which it was said that they cannot be read.
const MOST_SAID: usize = 1_000;
/// Where the server listens when nothing is said.
const OWN_ADDRESS: &str = "127.0.0.1:7411";

/// What this engine knows of alerts.
#[derive(Debug)]
pub(super) struct Alerts {
    settings: Mutex<Arc<AlertSettings>>,
    /// When the numbers are looked at next, on the steady clock.
    next: Mutex<Duration>,
    /// A letter was written here.
    soon: AtomicBool,
    /// What was said to be unreadable, or otherwise in the way: once is enough.
    said: Mutex<HashSet<String>>,
}

impl Alerts {
    pub(super) fn new(settings: AlertSettings) -> Alerts {
        let settings = Mutex::new(Arc::new(settings));
        let (next, soon) = (Mutex::new(Duration::ZERO), AtomicBool::new(false));
        Alerts { settings, next, soon, said: Mutex::default() }
    }

    /// Whether this has not been said before.
    fn is_news(&self, what: String) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MOST_SAID {
            said.clear();
        }
        said.insert(what)
    }

    fn is_time(&self, steady: Duration) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.soon.swap(false, Ordering::Relaxed) && steady < *next {
            return false;
        }
        *next = steady.saturating_add(LOOK_EVERY);
        true
    }
}

/// How a rule stands.
#[derive(Debug, Clone)]
pub struct AlertStatus {
    /// What it finds now.
    pub finding: Finding,
    /// Since when it has been found to be so, as far as somebody looked.
    pub since: Option<Timestamp>,
    /// When people were told last.
    pub told_at: Option<Timestamp>,
    /// By what it is silenced.
    pub silence: Option<Silence>,
}

/// Everything about alerts, as of now.
#[derive(Debug, Clone)]
pub struct AlertReport {
    /// Each rule that is on.
    pub rules: Vec<AlertStatus>,
    /// Rules that are off.
    pub off: Vec<AlertRule>,
    /// What is silenced.
    pub silences: Vec<Silence>,
    /// Who is told: names, and where to without secrets.
    pub receivers: Vec<(String, String)>,
}

impl AlertReport {
    /// Whether anything is wrong.
    pub fn is_firing(&self) -> bool {
        self.rules.iter().any(|rule| rule.finding.firing)
    }
}

/// Why something about alerts cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlertProblem {
    /// A message to ourselves would never end.
    #[error("the webhook of {0:?} is this very server; an alert must go somewhere else")]
    OwnServer(String),
    /// Nobody is to be told.
    #[error("nobody is told: the configuration has no [[alerts.receivers]]")]
    NoReceivers,
    /// There is no such receiver.
    #[error("there is no receiver {name:?}; known: {}", .known.join(", "))]
    NoReceiver {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Neither a rule nor the fingerprint of a group.
    #[error("{name:?} is neither a rule nor the fingerprint of a group; rules: {}", .known.join(", "))]
    NotSilenceable {
        /// What was given.
        name: String,
        /// The rules.
        known: Vec<String>,
    },
    /// There is no such silence.
    #[error("there is no silence {0:?}")]
    NoSilence(String),
    /// Too many.
    #[error("there are {0} silences already, which is the most")]
    TooManySilences(u32),
    /// What is kept was written by a redrive that this one does not understand.
    #[error("what is kept of alerts cannot be read: {0}")]
    Unreadable(String),
}

/// Whether nobody is told by asking ourselves: `redrive config check` asks before anybody relies on it.
pub fn check_alert_receivers(settings: &AlertSettings, listen: &[String]) -> Result<(), AlertProblem> {
    for receiver in &settings.receivers {
        if let AlertBy::Webhook { url, .. } = &receiver.by
            && is_own(url, listen)
        {
            return Err(AlertProblem::OwnServer(receiver.name.clone()));
        }
    }
    Ok(())
}

/// Whether an address leads to one that we listen at.
fn is_own(url: &str, listen: &[String]) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let bare = |host: &str| host.trim_matches(['[', ']']).to_ascii_lowercase();
    let host = bare(host);
    let is_here = |host: &str| {
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
    };
    let usual = [OWN_ADDRESS.to_owned()];
    let listen = if listen.is_empty() { &usual } else { listen };
    listen.iter().filter_map(|address| address.rsplit_once(':')).any(|(own, own_port)| {
        let own = bare(own);
        own_port == port.to_string() && (own == host || (is_here(&own) && is_here(&host)))
    })
}

/// A receiver's address as it may be shown: of a webhook the host alone, since the rest is often a secret.
fn shown_place(receiver: &AlertReceiver) -> String {
    match &receiver.by {
        AlertBy::Webhook { url, .. } => shown_webhook(url),
        AlertBy::Command(argv) => argv.first().cloned().unwrap_or_default(),
    }
}

impl Engine {
    /// When people are told, and who.
    pub fn alert_settings(&self) -> Arc<AlertSettings> {
        Arc::clone(&self.0.alerts.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges when people are told, and who, for what a configuration says.
    pub(super) fn reload_alerts(&self, settings: &AlertSettings) {
        let mut held = self.0.alerts.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(settings.clone());
    }

    /// A letter was written: the next maintenance looks at the rules.
    pub(super) fn alert_soon(&self) {
        self.0.alerts.soon.store(true, Ordering::Relaxed);
    }

    /// Looks at the rules if it is time, and tells people what is new. How many messages came of it. Trouble of its own is said once
    /// and left: nobody else's work ends because people cannot be told.
    pub(super) async fn look_at_alerts(&self) -> Result<u64, EngineError> {
        let settings = self.alert_settings();
        if settings.receivers.is_empty() || !self.0.alerts.is_time(self.clock().steady()) {
            return Ok(0);
        }
        match self.tell_alerts(&settings).await {
            Err(error) if is_its_own(&error) => {
                if self.0.alerts.is_news(error.to_string()) {
                    tracing::error!(%error, "nobody is told of alerts; everything else goes on");
                }
                Ok(0)
            }
            Err(error) => {
                self.alert_soon();
                Err(error)
            }
            told => told,
        }
    }

    /// What a receiver knows, by a notice. One that cannot be read is left to whoever has written it just now, as a newer redrive does
    /// while others are not replaced yet; when nobody does, it begins anew.
    fn what_is_known(&self, notice: Option<&Notice>, now: Timestamp) -> Read {
        let Some(notice) = notice else { return Read::Known(State::default()) };
        let why = match State::read(&notice.value) {
            Ok(state) => return Read::Known(state),
            Err(why) => why,
        };
        let left_alone = now.since(notice.changed_at) >= LEFT_ALONE;
        self.say_unreadable(
            notice,
            &why,
            if left_alone { "it begins anew" } else { "whoever wrote it goes on" },
        );
        if left_alone { Read::Lost(why.to_string()) } else { Read::OfOthers }
    }

    fn say_unreadable(&self, notice: &Notice, why: &EngineError, then: &'static str) {
        let Notice { space, name, version, .. } = notice;
        if self.0.alerts.is_news(format!("{space} {name} {version} {then}")) {
            tracing::error!(space, name, %why, "what is kept of alerts cannot be read; {then}");
        }
    }

    async fn tell_alerts(&self, settings: &AlertSettings) -> Result<u64, EngineError> {
        let now = self.store_now().await?;
        // First what is known, then what is: whoever is faster has seen at least as much.
        let mut known = Vec::with_capacity(settings.receivers.len());
        for receiver in &settings.receivers {
            known.push((receiver, self.store().notice(SPACE.to_owned(), receiver.name.clone()).await?));
        }
        let silences = self.silences().await?;
        let facts = self.alert_facts(now).await?;
        let findings = rules::findings(settings, &facts);
        let mut telling = Telling::default();
        for (receiver, notice) in known {
            let (before, lost) = match self.what_is_known(notice.as_ref(), now) {
                Read::Known(state) => (state, None),
                Read::Lost(why) => (State::default(), Some(unreadable_event(&receiver.name, &why))),
                Read::OfOthers => continue,
            };
            let own = turn::terms(settings, receiver.severity);
            let is_heard = |finding: &&Finding| finding.rule.severity() >= receiver.severity;
            let heard: Vec<Finding> = findings.iter().filter(is_heard).cloned().collect();
            let (after, messages) = turn::turn(settings, &own, &before, &heard, &facts, &silences, now);
            if after == before && lost.is_none() {
                continue;
            }
            telling.lost.extend(lost);
            telling.changes.push(NoticeChange {
                space: SPACE.to_owned(),
                name: receiver.name.clone(),
                seen: notice.map(|notice| notice.version),
                value: Some(after.write()?),
                due_at: None,
            });
            for message in messages {
                telling.jobs.extend(message.is_for(receiver).then(|| message.job(receiver, settings, self)));
                telling.tell(message, receiver);
            }
        }
        if telling.changes.is_empty() {
            return Ok(0);
        }
        let count = telling.messages.len() as u64;
        let Telling { changes, jobs, messages, lost } = telling;
        let events = lost.into_iter().chain(messages.iter().map(|(message, to)| message.event(to))).collect();
        match self.store().post(now, changes, jobs, events).await? {
            Posted::Done { .. } => Ok(count),
            Posted::Outrun => {
                // Another engine has told one of them. The others are looked at again.
                self.alert_soon();
                Ok(0)
            }
        }
    }

    /// How every rule stands now. Nobody is told of it.
    pub async fn alerts(&self) -> Result<AlertReport, EngineError> {
        let (now, settings) = (self.store_now().await?, self.alert_settings());
        let facts = self.alert_facts(now).await?;
        let notices = self.store().notices(SPACE.to_owned(), None, MOST_RECEIVERS).await?;
        let known = notices.iter().filter_map(|notice| State::read(&notice.value).ok());
        let known: Vec<State> = known.collect();
        let silences = self.silences().await?;
        let findings = rules::findings(&settings, &facts);
        let off = AlertRule::ALL.into_iter().filter(|rule| findings.iter().all(|one| one.rule != *rule));
        let status = |finding: &Finding| AlertStatus {
            since: known.iter().filter_map(|state| state.since(finding.rule)).min(),
            told_at: known.iter().filter_map(|state| state.told_at(finding.rule)).max(),
            silence: silences.iter().find(|silence| silence.covers_rule(finding.rule, now)).cloned(),
            finding: finding.clone(),
        };
        let receivers = settings.receivers.iter().map(|one| (one.name.clone(), shown_place(one))).collect();
        Ok(AlertReport {
            rules: findings.iter().map(status).collect(),
            off: off.collect(),
            silences,
            receivers,
        })
    }

    /// Sends a test to everybody who is told, or to one of them. The jobs that deliver it.
    pub async fn test_alerts(&self, receiver: Option<&str>) -> Result<Vec<(String, JobId)>, EngineError> {
        let settings = self.alert_settings();
        if settings.receivers.is_empty() {
            return Err(AlertProblem::NoReceivers.into());
        }
        let names: Vec<String> = settings.receivers.iter().map(|one| one.name.clone()).collect();
        if let Some(name) = receiver.filter(|name| !names.iter().any(|known| known == name)) {
            return Err(AlertProblem::NoReceiver { name: name.to_owned(), known: names }.into());
        }
        let message = Message::test(self.now());
        let wanted = settings.receivers.iter().filter(|one| receiver.is_none_or(|name| name == one.name));
        let (names, jobs): (Vec<String>, Vec<_>) =
            wanted.map(|one| (one.name.clone(), message.job(one, &settings, self))).unzip();
        let enqueued = self.enqueue_many(jobs).await?;
        Ok(names.into_iter().zip(enqueued.into_iter().map(|one| one.id)).collect())
    }
}

/// What is told in one transaction.
#[derive(Default)]
struct Telling {
    changes: Vec<NoticeChange>,
    jobs: Vec<NewJob>,
    /// The messages, each once, and to whom they go.
    messages: Vec<(Message, Vec<String>)>,
    /// What was found unreadable.
    lost: Vec<NewEvent>,
}

impl Telling {
    fn tell(&mut self, message: Message, receiver: &AlertReceiver) {
        let to = message.is_for(receiver).then(|| receiver.name.clone());
        match self.messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, others)) => others.extend(to),
            None => self.messages.push((message, to.into_iter().collect())),
        }
    }
}

/// What a notice says of what a receiver knows.
enum Read {
    /// This.
    Known(State),
    /// Nothing that anybody could read: it begins anew.
    Lost(String),
    /// Something that only who wrote it can read.
    OfOthers,
}

/// Whether trouble is the alerts' own: something that they keep is broken. The store's trouble is everybody's.
fn is_its_own(error: &EngineError) -> bool {
    match error {
        EngineError::Store(error) => matches!(error.trouble(), Trouble::Corrupt(_) | Trouble::Refused(_)),
        _ => true,
    }
}

/// What the stream tells when what people knew is lost.
fn unreadable_event(receiver: &str, why: &str) -> NewEvent {
    NewEvent {
        event_type: "alert_state_lost".to_owned(),
        source: ALERT_QUEUE.to_owned(),
        data: json!({ "receiver": receiver, "why": why }),
        importance: Some(4),
        status: Some(EventStatus::Failed),
        ..NewEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability row 61: a webhook that points at our own server is refused, however it is written.
    #[test]
    fn a_webhook_to_ourselves_is_known() {
        let own = |url: &str, listen: &[&str]| {
            is_own(url, &listen.iter().map(|address| (*address).to_owned()).collect::<Vec<_>>())
        };
        assert!(own("http://127.0.0.1:7411/v1/jobs", &[]));
        assert!(own("http://localhost:7411/", &[]));
        assert!(own("http://[::1]:7411/x", &["0.0.0.0:7411"]));
        assert!(own("https://redrive.example.com/x", &["redrive.example.com:443"]));
        assert!(!own("http://127.0.0.1:7412/", &[]));
        assert!(!own("http://10.0.0.7:7411/", &["127.0.0.1:7411"]));
    }
}
