//! The delivery of a message, as one attempt of a job: its words are made here, from a template in the receiver's language, and it
//! is posted to a webhook or given to a command.
//!
//! Where to is looked up in the configuration of this process, by the receiver's name: addresses are often secrets, and a job holds
//! none. A template that does not work is told of loudly, and the built-in one takes its place: a broken message is better than
//! none.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use minijinja::{AutoEscape, Environment};
use redrive_policy::{AlertBy, AlertReceiver, Cause, KnownSecrets, Lang, Verdict};
use redrive_store::{EventStatus, NewEvent, Origin, Timestamp};
use serde_json::json;

use super::message::{Delivery, Message};
use super::{ALERT_HOP, ALERT_QUEUE};
use crate::engine::handler::unreadable;
use crate::engine::{Engine, EngineError, Executor, Running};
use crate::exec::{CommandSpec, Wiring, run_command};
use crate::http_call::{HttpSpec, call_http, http_client};
use crate::outcome::{Evidence, Executed, Outcome};
use crate::secrets::redact;

/// How much work a template may make.
const FUEL: u64 = 200_000;
/// The longest body.
const MOST_BYTES: usize = 256 * 1024;
/// The longest file that is read as a template.
const MOST_TEMPLATE: u64 = 64 * 1024;

/// How long somebody who knows the receiver of a message is waited for.
const NOBODY_FOR: Duration = Duration::from_hours(1);
/// For how long such a message is put off each time.
const LEAST_PUT_OFF: Duration = Duration::from_secs(1);
const MOST_PUT_OFF: Duration = Duration::from_mins(2);
/// How much of its story is read: it is put off less often within an hour.
const MOST_STORY: u32 = 200;

const TEXT_EN: &str = include_str!("templates/text.en.j2");
const TEXT_JA: &str = include_str!("templates/text.ja.j2");
const JSON: &str = include_str!("templates/json.j2");
const SLACK: &str = include_str!("templates/slack.j2");

/// Delivers messages of alerts. A worker of an engine whose configuration has receivers has one by itself.
#[derive(Debug, Clone)]
pub struct AlertExecutor {
    client: reqwest::Client,
}

impl AlertExecutor {
    /// With a client of our own. It uses no proxy of the environment, and follows no redirect.
    pub fn new() -> Result<AlertExecutor, EngineError> {
        let client = http_client().no_proxy().build().map_err(EngineError::HttpClient)?;
        Ok(AlertExecutor { client })
    }

    async fn deliver(&self, running: &Running, delivery: &Delivery) -> Executed {
        let engine = running.engine();
        let settings = engine.alert_settings();
        let Some(to) = settings.receivers.iter().find(|one| one.name == delivery.receiver) else {
            let outcome = leave_to_others(running, &delivery.receiver).await;
            return Executed::silent(outcome, Duration::ZERO);
        };
        let words = Words::new(engine, to, &delivery.message);
        let body = body(engine, to, &words).await;
        match &to.by {
            AlertBy::Webhook { url, headers, .. } => {
                let mut all = vec![
                    ("content-type".to_owned(), "application/json".to_owned()),
                    (ALERT_HOP.to_owned(), "1".to_owned()),
                ];
                all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
                let spec =
                    HttpSpec { headers: all, body: Some(body.into_bytes()), ..HttpSpec::new("POST", url) };
                let executed = call_http(&self.client, &spec, &running.surroundings()).await;
                without_address(executed, url, headers)
            }
            AlertBy::Command(argv) => {
                let argv: Vec<std::ffi::OsString> = argv.iter().map(Into::into).collect();
                let spec =
                    CommandSpec { env: words.variables(to), stdin: Some(body), ..CommandSpec::new(&argv) };
                run_command(&spec, &running.surroundings(), Wiring::captured()).await
            }
        }
    }
}

impl Executor for AlertExecutor {
    fn execute<'a>(&'a self, running: &'a Running) -> Pin<Box<dyn Future<Output = Executed> + Send + 'a>> {
        Box::pin(async move {
            // Who may enqueue work may not speak to people in our name.
            if running.job.origin == Origin::Api {
                return Executed::silent(Outcome::failed(forged()), Duration::ZERO);
            }
            match serde_json::from_slice::<Delivery>(&running.job.payload) {
                Ok(delivery) => self.deliver(running, &delivery).await,
                Err(error) => {
                    Executed::silent(Outcome::failed(unreadable(&error.to_string())), Duration::ZERO)
                }
            }
        })
    }

    fn leeway(&self) -> Duration {
        // Calls and commands keep to the limit themselves.
        Duration::from_secs(15)
    }
}

/// A receiver that stands in the configuration of another process, perhaps: the message is put off, uncounted, so that whoever knows the
/// receiver can take it. Each time for half as long as it has waited, so that two who do not know it keep no core busy; and when
/// nobody has come for an hour, a letter says so.
async fn leave_to_others(running: &Running, receiver: &str) -> Outcome {
    let waited = match put_off_since(running).await {
        Ok(since) => running.engine().now().since(since),
        Err(error) => {
            tracing::warn!(%error, "since when a message is put off cannot be read");
            Duration::ZERO
        }
    };
    if waited < NOBODY_FOR {
        return Outcome::Snoozed((waited / 2).clamp(LEAST_PUT_OFF, MOST_PUT_OFF));
    }
    Outcome::failed(Evidence {
        said: Some((Cause::Configuration, Verdict::No)),
        error_type: "Receiver".to_owned(),
        message: format!(
            "no process whose configuration has the receiver {receiver:?} has taken this message for an hour, and this one has none"
        ),
        ..Evidence::default()
    })
}

/// When something else happened to a message for the last time than that somebody looked at it and put it off.
async fn put_off_since(running: &Running) -> Result<Timestamp, EngineError> {
    let story = running.engine().store().causality(running.event, MOST_STORY).await?;
    let waits = ["attempt_started", "job_parked", "job_released", "job_snoozed"];
    let other = story.iter().rev().find(|event| !waits.contains(&event.event_type.as_str()));
    Ok(other.or(story.first()).map_or(running.job.enqueued_at, |event| event.timestamp))
}

/// A message that redrive has not written.
fn forged() -> Evidence {
    Evidence {
        said: Some((Cause::ValidationError, Verdict::No)),
        error_type: "ForgedAlert".to_owned(),
        message: "it came over the API; messages of alerts are written by redrive alone".to_owned(),
        ..Evidence::default()
    }
}

/// What an answer or an error says about where it came from is often the secret itself, and so is every header of a receiver.
fn without_address(mut executed: Executed, url: &str, headers: &BTreeMap<String, String>) -> Executed {
    let known = KnownSecrets::of_webhook(url).with(KnownSecrets::of_values(headers.values().cloned()));
    executed.stdout_tail = executed.stdout_tail.map(|tail| known.mask(&tail).into_owned());
    if let Outcome::Failed(evidence) = &mut executed.outcome {
        **evidence = evidence.redacted_knowing(&known);
    }
    executed
}

/// What templates are given.
struct Words<'a> {
    message: &'a Message,
    lang: Lang,
    value: Option<String>,
    threshold: Option<String>,
    store: String,
    receiver: &'a str,
}

impl<'a> Words<'a> {
    fn new(engine: &Engine, to: &'a AlertReceiver, message: &'a Message) -> Words<'a> {
        let shown = |number: Option<f64>| number.map(|number| shown(number, message.unit.as_deref()));
        Words {
            lang: to.lang.unwrap_or(engine.0.lang),
            value: shown(message.value),
            threshold: shown(message.threshold),
            store: engine.store().location(),
            receiver: &to.name,
            message,
        }
    }

    /// The built-in words.
    fn text(&self) -> Result<String, minijinja::Error> {
        let source = match self.lang {
            Lang::En => TEXT_EN,
            Lang::Ja => TEXT_JA,
        };
        let text = self.render("text", source, AutoEscape::None, "")?;
        Ok(text.trim_end().to_owned())
    }

    fn render(
        &self,
        name: &str,
        source: &str,
        escape: AutoEscape,
        text: &str,
    ) -> Result<String, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(move |_| escape.clone());
        environment.add_filter("slack", for_slack);
        environment.add_template_owned(name.to_owned(), source.to_owned())?;
        let message = self.message;
        let known = json!({
            "what": message.what, "rule": message.rule, "severity": message.severity, "unit": message.unit,
            "number": message.value, "limit": message.threshold, "value": self.value,
            "threshold": self.threshold, "samples": message.samples, "since": message.since, "at": message.at,
            "more": message.more, "groups": message.groups, "store": self.store, "receiver": self.receiver,
            "lang": self.lang.name(), "text": text, "title": text.lines().next().unwrap_or_default(),
        });
        environment.get_template(name)?.render(minijinja::value::Serde(&known))
    }

    /// The variables that a command gets.
    fn variables(&self, to: &AlertReceiver) -> BTreeMap<String, String> {
        let message = self.message;
        let what = serde_json::to_value(message.what).ok();
        let pairs = [
            ("WHAT", what.and_then(|what| what.as_str().map(str::to_owned)).unwrap_or_default()),
            ("RULE", message.rule.clone().unwrap_or_default()),
            ("SEVERITY", message.severity.clone()),
            ("VALUE", self.value.clone().unwrap_or_default()),
            ("THRESHOLD", self.threshold.clone().unwrap_or_default()),
            ("SINCE", message.since.to_string()),
            ("AT", message.at.to_string()),
            ("RECEIVER", to.name.clone()),
        ];
        pairs.into_iter().map(|(name, value)| (format!("REDRIVE_ALERT_{name}"), value)).collect()
    }
}

/// A length of time in its one or two largest units: `1d`, `3m 33s`, `35ms`.
fn length(ms: u64) -> String {
    let seconds = ms / 1_000;
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    match units.iter().position(|(unit, _)| seconds >= *unit) {
        None => format!("{ms}ms"),
        Some(at) => {
            let (large, name) = units[at];
            let rest = units.get(at + 1).map(|(small, name)| (seconds % large / small, name));
            match rest.filter(|(n, _)| *n > 0) {
                Some((n, small)) => format!("{}{name} {n}{small}", seconds / large),
                None => format!("{}{name}", seconds / large),
            }
        }
    }
}

/// A number as people read it.
fn shown(number: f64, unit: Option<&str>) -> String {
    match unit {
        Some("percent") => format!("{number} %"),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some("ms") => length(number.max(0.0) as u64),
        _ => number.round().to_string(),
    }
}

/// A text in which nothing is a command of Slack: no mention, no link.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The body: of the receiver's own template, if it has one that works.
async fn body(engine: &Engine, to: &AlertReceiver, words: &Words<'_>) -> String {
    if let Some(path) = &to.template {
        match own_body(path, to, words) {
            Ok(body) => return body,
            Err(why) => tell_broken(engine, to, &why).await,
        }
    }
    built_in(to, words).unwrap_or_else(|error| {
        tracing::error!(%error, "a built-in template does not work");
        json!({ "schema": "redrive/alert.v1", "message": words.message }).to_string()
    })
}

fn built_in(to: &AlertReceiver, words: &Words<'_>) -> Result<String, minijinja::Error> {
    let text = words.text()?;
    match &to.by {
        AlertBy::Webhook { slack: true, .. } => words.render("slack", SLACK, AutoEscape::Json, &text),
        AlertBy::Webhook { slack: false, .. } => words.render("json", JSON, AutoEscape::Json, &text),
        AlertBy::Command(_) => Ok(text + "\n"),
    }
}

fn own_body(path: &str, to: &AlertReceiver, words: &Words<'_>) -> Result<String, String> {
    let size = std::fs::metadata(Path::new(path)).map_err(|error| error.to_string())?.len();
    if size > MOST_TEMPLATE {
        return Err(format!("it has {size} bytes; {MOST_TEMPLATE} is the most"));
    }
    let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let escape = match to.by {
        AlertBy::Webhook { .. } => AutoEscape::Json,
        AlertBy::Command(_) => AutoEscape::None,
    };
    let text = words.text().map_err(|error| error.to_string())?;
    let body = words.render("own", &source, escape, &text).map_err(|error| error.to_string())?;
    if body.len() > MOST_BYTES {
        return Err(format!("what it makes has {} bytes; {MOST_BYTES} is the most", body.len()));
    }
    if matches!(to.by, AlertBy::Webhook { .. }) {
        serde_json::from_str::<serde::de::IgnoredAny>(&body)
            .map_err(|error| format!("what it makes is no JSON: {error}"))?;
    }
    Ok(body)
}

/// Loudly: in the log and in the stream. The message goes out all the same.
async fn tell_broken(engine: &Engine, to: &AlertReceiver, why: &str) {
    tracing::error!(
        receiver = to.name,
        why,
        "the template of a receiver does not work; the built-in one is used"
    );
    let event = NewEvent {
        event_type: "alert_template_broken".to_owned(),
        source: ALERT_QUEUE.to_owned(),
        data: json!({ "receiver": to.name, "why": redact(why).chars().take(500).collect::<String>() }),
        importance: Some(4),
        // It waits for a person, and is no work that failed.
        status: Some(EventStatus::Pending),
        ..NewEvent::default()
    };
    if let Err(error) = engine.store().append(engine.now(), vec![event]).await {
        tracing::error!(%error, "that a template does not work could not be written down");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C5: lengths of time are told as people say them.
    #[test]
    fn lengths_are_told_in_one_or_two_units() {
        for (ms, told) in [
            (35, "35ms"),
            (5_000, "5s"),
            (213_000, "3m 33s"),
            (300_000, "5m"),
            (86_400_000, "1d"),
            (93_600_000, "1d 2h"),
        ] {
            assert_eq!(length(ms), told);
        }
    }
}
