//! What an answer means: whether the call is done, is sent again, or waits for a person.
//!
//! That is for the classifier and the policy to say, with two exceptions which they cannot know: a far side that was never
//! reached has not refused anything, and what redrive's own layer or proxy says of a key is read by its problem type.

use std::time::Duration;

use redrive::engine::Engine;
use redrive::{Action, Evidence, Executed, Outcome, Policy};
use redrive_policy::one_line;
use serde_json::Value;

/// What redrive's layer and proxy call their problems.
const OURS: &str = "urn:redrive:problem:idempotency-";

/// How long one waits at least for a call that is under way.
const UNDERWAY: Duration = Duration::from_secs(1);

/// The longest that a word about the end is.
const WORDS: usize = 400;

/// What a send came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is done.
    Done,
    /// It may be worth another try after so long.
    Again(Duration),
    /// An earlier send of the same is being worked on: ask again after so long. Nothing was refused, so this does not count.
    Underway(Duration),
    /// The far side was not reached.
    NotReached,
    /// We were asked to let go of it. Nobody knows what became of it.
    LetGo,
    /// It is not sent again by itself.
    Failed,
}

/// What a send means, and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) meaning: Meaning,
    pub(super) status: Option<u16>,
    /// For people; no secrets.
    pub(super) words: Option<String>,
}

/// Reads what became of the send of this number.
pub(super) fn read(executed: &Executed, sends: u32, policy: &Policy, engine: &Engine) -> Answer {
    let status = executed.http_status;
    let evidence = match &executed.outcome {
        Outcome::Succeeded => return Answer { meaning: Meaning::Done, status, words: None },
        Outcome::Failed(evidence) => evidence,
        Outcome::Snoozed(_) | Outcome::Cancelled(_) => {
            let words = Some("let go of before there was an answer".to_owned());
            return Answer { meaning: Meaning::LetGo, status, words };
        }
    };
    let problem = Problem::read(evidence);
    let meaning = match problem.as_ref().and_then(Problem::ours) {
        Some("in-flight") => Meaning::Underway(evidence.retry_after.unwrap_or(UNDERWAY).max(UNDERWAY)),
        // It was done by an earlier send, and only what was answered then is not known any more.
        Some("response-not-kept") => Meaning::Done,
        // Whatever else the status may mean: the same key will get the same answer until a person has looked.
        Some("mismatch" | "unknown-outcome") => Meaning::Failed,
        _ => judged(evidence, sends, policy, engine),
    };
    let words = problem.and_then(|problem| problem.words(status)).unwrap_or_else(|| in_words(evidence));
    Answer { meaning, status, words: Some(words) }
}

fn judged(evidence: &Evidence, sends: u32, policy: &Policy, engine: &Engine) -> Meaning {
    // A way that is not there is no answer and uses up nothing, whatever the name server or the line called it. A call that
    // cannot be made is said to be one, and is never sent either.
    if evidence.never_sent && evidence.said.is_none() {
        return Meaning::NotReached;
    }
    match engine.decide_on(evidence, policy, sends.saturating_sub(1)).action {
        Action::Retry { delay } => Meaning::Again(delay),
        Action::Pass | Action::Escalate => Meaning::Failed,
    }
}

/// In a line. That a client could not connect is known; what kept it from that is said behind it.
fn in_words(evidence: &Evidence) -> String {
    let summary = evidence.summary();
    match summary.split_once("client error (Connect): ") {
        Some((_, why)) if evidence.never_sent => why.to_owned(),
        _ => summary,
    }
}

/// An answer in the form of RFC 9457.
struct Problem {
    kind: Option<String>,
    title: Option<String>,
    detail: Option<String>,
}

impl Problem {
    fn read(evidence: &Evidence) -> Option<Problem> {
        let body: Value = serde_json::from_str(&evidence.message).ok()?;
        let part = |name: &str| body.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let problem = Problem { kind: part("type"), title: part("title"), detail: part("detail") };
        (problem.title.is_some() || problem.kind.is_some()).then_some(problem)
    }

    /// The last part of its type, if it is one of redrive's.
    fn ours(&self) -> Option<&str> {
        self.kind.as_deref()?.strip_prefix(OURS)
    }

    /// Its own words.
    fn words(&self, status: Option<u16>) -> Option<String> {
        let said = self.detail.as_ref().or(self.title.as_ref())?;
        let evidence = Evidence { http_status: status, message: one_line(said), ..Evidence::default() };
        let words = evidence.summary();
        Some(words.chars().take(WORDS).collect())
    }
}
