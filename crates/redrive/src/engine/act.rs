//! Acts of operators: who did what to what, and why. An act is written down before it is done, so that a crash in between leaves
//! a record of something that did not happen, and never something that nobody has a record of. Refused attempts are written down
//! as well. The API and the command line both come here.

use redrive_store::{EventStatus, NewEvent};
use serde_json::json;

use super::{Engine, EngineError};
use crate::secrets::redact;

/// The most characters that are kept of a reason, and of what was acted on.
const WHY_CHARS: usize = 1_000;
const TARGET_CHARS: usize = 400;
/// The most that is kept of who did it: it is a name in the store.
const WHO_BYTES: usize = 200;

/// An act of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Who: `cli:ada`, `token:k3v9`, `local`.
    pub who: String,
    /// What is done: `redrive`, `queue.pause`, `token.create`.
    pub act: String,
    /// What it is done to: a job, a queue, a group, a filter.
    pub target: String,
    /// Why, in the operator's words.
    pub why: Option<String>,
}

impl Engine {
    /// Writes an act down, as an `operator_act` event. Call it first, then act.
    ///
    /// ```
    /// use redrive::engine::{Act, Engine};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let engine = Engine::open(dir.path().join("redrive.db"))?;
    /// let why = Some("the payment provider is down".to_owned());
    /// engine.record_act(Act { who: "cli:ada".into(), act: "queue.pause".into(), target: "payments".into(), why }).await?;
    /// engine.store().pause_queue(engine.now(), "payments".into(), None).await?;
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub async fn record_act(&self, act: Act) -> Result<(), EngineError> {
        self.store().append(self.now(), vec![act.event("operator_act", EventStatus::Success)]).await?;
        Ok(())
    }

    /// Writes down that somebody tried to act and was refused, as an `operator_refused` event.
    pub async fn record_refusal(&self, act: Act) -> Result<(), EngineError> {
        self.store().append(self.now(), vec![act.event("operator_refused", EventStatus::Pending)]).await?;
        Ok(())
    }
}

impl Act {
    /// The act as an event, for those who write it in the transaction of the act itself.
    pub(crate) fn event(self, event_type: &str, status: EventStatus) -> NewEvent {
        let who = name(&self.who);
        let target = beginning(&redact(&self.target), TARGET_CHARS);
        let mut data = json!({ "who": who, "act": self.act, "target": target });
        if let Some(why) = self.why.as_deref().map(str::trim).filter(|why| !why.is_empty()) {
            data["why"] = json!(beginning(&redact(why), WHY_CHARS));
        }
        NewEvent {
            event_type: event_type.to_owned(),
            source: who,
            data,
            tags: vec!["operator".to_owned()],
            importance: Some(4),
            status: Some(status),
            ..NewEvent::default()
        }
    }
}

/// A name that the store takes: no control characters, not empty, not endless.
fn name(who: &str) -> String {
    let mut kept = String::new();
    for c in who.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > WHO_BYTES {
            break;
        }
        kept.push(c);
    }
    if kept.is_empty() { "unknown".to_owned() } else { kept }
}

fn beginning(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 62, 68: a record holds no secret, no endless text and no name that the store refuses.
    #[test]
    fn what_is_written_down_is_bounded_and_blanked() {
        let act = Act {
            who: format!("cli:\n\u{1b}{}", "é".repeat(500)),
            act: "redrive".into(),
            target: "t".repeat(2_000),
            why: Some("password=hunter2".into()),
        };
        let event = act.event("operator_act", EventStatus::Success);
        event.validate().unwrap();
        assert!(event.source.starts_with("cli:é") && event.source.len() <= WHO_BYTES);
        assert_eq!(event.data["why"], "password=[redacted]");
        assert_eq!(event.data["target"].as_str().unwrap().chars().count(), TARGET_CHARS + 1);
        let nobody = Act { who: "\n".into(), act: "x".into(), target: String::new(), why: Some(" ".into()) };
        let event = nobody.event("operator_refused", EventStatus::Pending);
        event.validate().unwrap();
        assert_eq!((event.source.as_str(), event.data.get("why")), ("unknown", None));
    }
}
