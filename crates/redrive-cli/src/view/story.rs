//! The whole story of a job (`explain`): each attempt, what was decided about it and why, and what comes next.
//!
//! It is told from the job's events alone; every decision's event carries the whole decision (R-E2).

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::engine::{JobStory, ParkedJob, StoryAttempt};
use redrive_policy::{DecisionRecord, Lang, human_duration};
use redrive_store::{Event, EventStatus, Timestamp};
use serde::Serialize;

use super::badge::Badge;
use super::key_reason::key_reason;
use super::level;
use super::moment::{clock, date_time, precise, rough, when};
use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::escape::beginning;
use crate::text::{find, own, say, text};

/// What is quoted of an error's words in a story, and in a row.
const MESSAGE_CHARS: usize = 600;
const ROW_CHARS: usize = 120;

/// One attempt that ended.
pub(crate) type Attempt = StoryAttempt;

/// An attempt in words.
pub(crate) trait AttemptWords {
    /// What it was recognised by besides its words: `HTTP 503 · code ETIMEDOUT`.
    fn signals(&self, lang: Lang) -> Option<String>;
    /// Which policy decided, in which version.
    fn policy(&self, lang: Lang) -> Option<String>;
    /// The decision in that language.
    fn record(&self, lang: Lang) -> Option<&DecisionRecord>;
    /// Why it was decided so.
    fn reasoning(&self, lang: Lang) -> Option<&str>;
    /// The decision in a word: `RETRY in 2s`.
    fn verdict(&self, reader: Reader) -> Span;
    /// `exit code 75`, or nothing for what is no command.
    fn exit(&self, lang: Lang) -> Option<String>;
}

impl AttemptWords for Attempt {
    fn signals(&self, lang: Lang) -> Option<String> {
        let status = self.http_status.map(|status| format!("HTTP {status}"));
        let code = self.code.as_ref().map(|code| text(lang, "story.code", &[("code", code)]));
        let parts: Vec<String> = [status, self.exit(lang), code].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }

    fn policy(&self, lang: Lang) -> Option<String> {
        let decision = self.decision.as_ref().filter(|decision| !decision.policy_version.is_empty())?;
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("policy", &decision.record.policy), ("version", &decision.policy_version)];
        Some(text(lang, "story.policy", &values))
    }

    fn record(&self, lang: Lang) -> Option<&DecisionRecord> {
        self.decision.as_ref().map(|decision| match lang {
            Lang::Ja => &decision.ja,
            Lang::En => &decision.record,
        })
    }

    fn reasoning(&self, lang: Lang) -> Option<&str> {
        self.record(lang).map(|record| record.reasoning.as_str())
    }

    fn verdict(&self, reader: Reader) -> Span {
        match (self.record(reader.lang), self.status) {
            (Some(record), _) => super::decision::headline(record, reader),
            (None, EventStatus::Success) => Span::new(say(reader.lang, "story.done"), Tone::Good),
            (None, status) => Span::new(status.name(), tone(status)),
        }
    }

    fn exit(&self, lang: Lang) -> Option<String> {
        self.exit_code.filter(|code| *code != 0).map(|code| text(lang, "story.exit-code", &[("code", &code)]))
    }
}

/// Attempts as a table: number, when, how long, cause, what was decided.
pub(crate) fn attempts_table(attempts: &[Attempt], reader: Reader) -> Table {
    let lang = reader.lang;
    let columns = [
        ("attempt", Align::Right),
        ("ended", Align::Left),
        ("took", Align::Right),
        ("cause", Align::Left),
        ("decision", Align::Left),
    ];
    let row = |attempt: &Attempt| {
        let took = attempt.latency_ms.map(|ms| rough(Duration::from_millis(ms)));
        let cause = attempt.cause.clone().unwrap_or_else(|| "-".to_owned());
        let cause = match attempt.exit(lang) {
            Some(exit) => text(lang, "story.cause-and-exit", &[("cause", &cause), ("exit", &exit)]),
            None => cause,
        };
        vec![
            Span::plain(attempt.number.to_string()),
            Span::new(clock(attempt.ended_at), Tone::Dim),
            Span::plain(took.unwrap_or_else(|| "-".to_owned())),
            Span::plain(cause),
            attempt.verdict(reader),
        ]
    };
    Table {
        columns: columns.map(|(key, align)| (say(lang, &format!("story.{key}")), align)).to_vec(),
        rows: attempts.iter().map(row).collect(),
    }
}

/// The colour of a status.
pub(crate) const fn tone(status: EventStatus) -> Tone {
    match status {
        EventStatus::Success => Tone::Good,
        EventStatus::Failed | EventStatus::DeadLetter => Tone::Bad,
        EventStatus::Retrying => Tone::Warn,
        EventStatus::Pending => Tone::Dim,
        EventStatus::Running => Tone::Plain,
    }
}

/// What a failure said itself. Of one that said nothing the engine writes down its exit code, which is told anyway.
pub(crate) fn own_words(message: &str, exit_code: Option<i32>) -> &str {
    let message = message.trim();
    let silent =
        exit_code.is_some_and(|code| message.strip_prefix("exit code ") == Some(code.to_string().as_str()));
    if silent { "" } else { message }
}

/// A cause and the rule that found it; where no rule matched there is none to name.
pub(crate) fn cause_by(cause: impl std::fmt::Display, rule: &str, lang: Lang) -> String {
    match rule {
        "" | "unknown" => cause.to_string(),
        rule => text(lang, "decision.cause-by", &[("cause", &cause), ("rule", &rule)]),
    }
}

/// What kind of event, in words where it is one of ours.
pub(crate) fn type_in_words(event_type: &str, lang: Lang) -> String {
    find(lang, &format!("event.type.{event_type}")).unwrap_or(event_type).to_owned()
}

/// A job's story. JSON: where it stands, and its events.
#[derive(Debug, Serialize)]
pub(crate) struct StoryView {
    #[serde(flatten)]
    story: JobStory,
    /// Who wanted the redrives that it was put back by.
    #[serde(skip)]
    wanted: BTreeMap<String, String>,
    #[serde(skip)]
    now: Timestamp,
}

impl std::ops::Deref for StoryView {
    type Target = JobStory;

    fn deref(&self) -> &JobStory {
        &self.story
    }
}

impl StoryView {
    pub(crate) fn new(story: JobStory, wanted: BTreeMap<String, String>, now: Timestamp) -> StoryView {
        StoryView { story, wanted, now }
    }

    fn heading(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let state = say(lang, &format!("story.state.{}", self.state));
        let tone = match self.state {
            "succeeded" => Tone::Good,
            "dead" => Tone::Bad,
            "retrying" => Tone::Warn,
            _ => Tone::Strong,
        };
        let name = self.source.clone().unwrap_or_default();
        let place = text(
            lang,
            "story.place",
            &[
                ("kind", &self.kind.as_deref().unwrap_or("-")),
                ("queue", &self.queue.as_deref().unwrap_or("-")),
            ],
        );
        let mut line = vec![Span::new(self.id.to_string(), Tone::Heading)];
        if !name.is_empty() && self.kind.as_deref() != Some(name.as_str()) {
            line.push(Span::new(format!(" {name}"), Tone::Strong));
        }
        line.extend(self.calls.as_ref().map(|calls| Span::new(format!(" {calls}"), Tone::Strong)));
        line.push(Span::new(place, Tone::Dim));
        line.push(Span::new(state, tone));
        vec![Block::Text(line), Block::Gap]
    }

    /// Where it is parked, while it waits for its target.
    fn parked(&self) -> Option<ParkedJob> {
        self.next_run_at.filter(|at| *at > self.now)?;
        let told = self.events.last().filter(|event| event.event_type == "job_parked")?;
        ParkedJob::of(&told.data)
    }

    /// What will happen by itself, or what a person can do.
    fn next(&self, reader: Reader) -> String {
        let lang = reader.lang;
        let id: (&str, &dyn std::fmt::Display) = ("id", &self.id);
        if let Some(parked) = self.parked() {
            let why = parked.why.words(&parked.target, lang);
            let wait = rough(parked.until.since(self.now));
            let values: [(&str, &dyn std::fmt::Display); 4] =
                [id, ("until", &date_time(parked.until)), ("wait", &wait), ("why", &why)];
            return text(lang, "story.next.parked", &values);
        }
        match (self.state, self.next_run_at) {
            ("retrying" | "scheduled", Some(at)) => {
                let wait = rough(at.since(self.now));
                text(
                    lang,
                    &format!("story.next.{}", self.state),
                    &[id, ("wait", &wait), ("at", &date_time(at))],
                )
            }
            ("ready", _) if self.kind.as_deref().is_some_and(|kind| !matches!(kind, "exec" | "http")) => {
                text(
                    lang,
                    "story.next.ready-elsewhere",
                    &[("kind", &self.kind.as_deref().unwrap_or_default())],
                )
            }
            (state, _) => text(lang, &format!("story.next.{state}"), &[id]),
        }
    }
}

impl Page for StoryView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = self.heading(reader);
        let mut teller = Teller { begun: 0, is_back: false, day: String::new(), wanted: &self.wanted };
        for event in &self.events {
            blocks.extend(teller.tell(event, reader));
        }
        if let Some(last) = self.events.last() {
            let when = when(last.timestamp, self.now, reader);
            blocks.push(Block::Gap);
            let line = text(lang, "story.last", &[("when", &when)]);
            blocks.push(Block::Text(vec![Span::new(line, Tone::Dim)]));
        } else {
            blocks.push(Block::Text(vec![Span::new(say(lang, "story.no-events"), Tone::Dim)]));
        }
        blocks.extend(self.level.map(|level| Block::Text(vec![Span::plain(level::line(level, lang))])));
        blocks.push(Block::Text(vec![Span::new(self.next(reader), Tone::Strong)]));
        blocks
    }
}

/// Tells one event after the other.
struct Teller<'a> {
    begun: u64,
    /// Whether it was put back: attempts are counted from 1 again.
    is_back: bool,
    day: String,
    wanted: &'a BTreeMap<String, String>,
}

const INDENT: &str = "              ";

impl Teller<'_> {
    fn tell(&mut self, event: &Event, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = Vec::new();
        let day = precise(event.timestamp).split(' ').next().unwrap_or_default().to_owned();
        if day != self.day {
            blocks.push(Block::Text(vec![Span::new(format!("{day} (UTC)"), Tone::Dim)]));
            self.day = day;
        }
        self.begun =
            Attempt::number_in(event).unwrap_or(self.begun + u64::from(event.status == EventStatus::Running));
        let number = if self.is_back {
            text(lang, "story.after-redrive", &[("n", &self.begun)])
        } else {
            self.begun.to_string()
        };
        let n: (&str, &dyn std::fmt::Display) = ("n", &number);
        let took = rough(Duration::from_millis(event.latency_ms.unwrap_or_default()));
        let words = match event.status {
            EventStatus::Running => text(lang, "story.began", &[n]),
            EventStatus::Success if Attempt::ends_with(event) => {
                text(lang, "story.succeeded", &[n, ("took", &took)])
            }
            EventStatus::Retrying | EventStatus::DeadLetter | EventStatus::Failed
                if Attempt::ends_with(event) =>
            {
                text(lang, "story.failed", &[n, ("took", &took)])
            }
            _ if event.event_type == "payload_edited" => edited(event, lang),
            _ if event.event_type == "redrive" => {
                self.is_back = true;
                self.put_back(event, lang)
            }
            _ => {
                self.is_back |= event.event_type == "manual_retry" && event.data.get("redrives").is_some();
                type_in_words(&event.event_type, lang)
            }
        };
        blocks.push(Block::Text(vec![
            Span::new(format!("{}  ", clock(event.timestamp)), Tone::Dim),
            Span::new(words, tone(event.status)),
        ]));
        if Attempt::ends_with(event) && event.status != EventStatus::Success {
            blocks.extend(why(&Attempt::of(event, self.begun), event, reader));
        } else if let Some(reason) = reason_of(event, lang) {
            blocks.push(Block::Text(vec![Span::plain(format!("{INDENT}{reason}"))]));
        }
        blocks
    }

    /// By which redrive, and who wanted that.
    fn put_back(&self, event: &Event, lang: Lang) -> String {
        let Some(run) = run_in(event) else { return say(lang, "story.put-back") };
        match self.wanted.get(run) {
            Some(by) => text(lang, "story.put-back-by", &[("run", &run), ("by", &wanted_by(by, lang))]),
            None => text(lang, "story.put-back-in", &[("run", &run)]),
        }
    }
}

/// That somebody has mended the payload, who, and which one was kept.
fn edited(event: &Event, lang: Lang) -> String {
    let by = event.data.get("edited_by").and_then(serde_json::Value::as_str);
    let by = by.filter(|by| !by.is_empty() && *by != "person");
    let by = by.map_or_else(|| say(lang, "edited.by-person"), str::to_owned);
    let kept = event.data.get("version").and_then(serde_json::Value::as_u64).unwrap_or_default();
    text(lang, "story.edited", &[("by", &by), ("version", &kept)])
}

/// Who wanted a redrive, in words: a person, or a rule by its name.
pub(crate) fn wanted_by(wanted_by: &str, lang: Lang) -> String {
    match (wanted_by, wanted_by.strip_prefix("rule:")) {
        (_, Some(rule)) => text(lang, "story.by-rule", &[("rule", &rule)]),
        ("person", None) => say(lang, "redrive.by-person"),
        (other, None) => other.to_owned(),
    }
}

/// The redrive that an event belongs to.
pub(crate) fn run_in(event: &Event) -> Option<&str> {
    event.data.get("redrive_id").and_then(serde_json::Value::as_str)
}

/// Why a job was cancelled or given back, or a key given up, in the user's language where redrive said it; a person's words stay.
fn reason_in_words(reason: &str, lang: Lang) -> String {
    let signal = reason.strip_prefix("signal ").and_then(|rest| rest.split(' ').next()?.parse::<u8>().ok());
    match (signal, reason) {
        (Some(signal), _) => text(lang, "story.by-signal", &[("signal", &signal)]),
        (None, "its worker leaves" | "its worker leaves at once") => say(lang, "story.worker-leaves"),
        (None, "somebody asked for it") => say(lang, "story.asked-for"),
        (None, words) => key_reason(words, lang).unwrap_or_else(|| own(lang, words)),
    }
}

/// What an attempt failed of, what was decided, and what follows.
fn why(attempt: &Attempt, event: &Event, reader: Reader) -> Vec<Block> {
    let lang = reader.lang;
    let chars = if reader.verbose { MESSAGE_CHARS * 4 } else { MESSAGE_CHARS };
    let message = attempt.error_message.as_deref().unwrap_or_default();
    let message = beginning(&own(lang, own_words(message, attempt.exit_code)), chars);
    let said = match (attempt.signals(lang), message.is_empty()) {
        (Some(signals), true) => signals,
        (Some(signals), false) => format!("{signals}: {message}"),
        (None, _) => message,
    };
    let cause = attempt.cause.as_deref().unwrap_or_default();
    let cause = cause_by(cause, attempt.rule.as_deref().unwrap_or_default(), lang);
    let said = if said.is_empty() { said } else { format!(": {said}") };
    let mut blocks =
        vec![Block::Text(vec![Span::plain(INDENT), Span::new(cause, Tone::Strong), Span::plain(said)])];
    if let Some(reasoning) = attempt.reasoning(lang) {
        blocks.push(Block::Text(vec![Span::plain(format!("{INDENT}{reasoning}"))]));
    }
    if let Some(policy) = attempt.policy(lang) {
        blocks.push(Block::Text(vec![Span::new(format!("{INDENT}{policy}"), Tone::Dim)]));
    }
    let next = event.retry_info.as_ref().and_then(|retry| retry.next_retry_at);
    let decided = match (event.status, attempt.record(lang).and_then(|record| record.delay_ms), next) {
        (EventStatus::DeadLetter, ..) => Some(Span::new(say(lang, "story.set-aside"), Tone::Bad)),
        (EventStatus::Retrying, Some(ms), Some(at)) => {
            let wait = human_duration(Duration::from_millis(ms));
            // It is counted from the end of the attempt, which was a moment before this was written down.
            let words =
                text(lang, "story.again", &[("wait", &wait), ("at", &clock(at.max(event.timestamp)))]);
            Some(Span::new(words, Tone::Warn))
        }
        _ => None,
    };
    blocks.extend(decided.map(|span| Block::Text(vec![Span::plain(INDENT), span])));
    blocks
}

/// What an event reports in one line, for a list: `failed #2 · exit code 75 · network: … · again in 2s`.
pub(crate) fn in_short(event: &Event, lang: Lang) -> String {
    let decision = Attempt::decision_in(event).map(|decision| decision.record);
    let kind = type_in_words(&event.event_type, lang);
    let mut parts = vec![Attempt::number_in(event).map_or_else(|| kind.clone(), |n| format!("{kind} #{n}"))];
    parts.extend(about_a_run(event, lang));
    parts.extend(about_redrive(event, lang));
    if let Some(act) = about_an_act(event) {
        // That it is an act is said by who did it.
        if event.event_type == "operator_act" {
            parts.clear();
        }
        parts.push(act);
    }
    let failed = event.exit_code.filter(|code| *code != 0);
    parts.extend(failed.map(|code| text(lang, "story.exit-code", &[("code", &code)])));
    let message = event
        .error_info
        .as_ref()
        .map(|error| beginning(&own(lang, own_words(&error.error_message, event.exit_code)), ROW_CHARS));
    let cause = decision.as_ref().and_then(|record| record.cause).map(redrive_policy::Cause::name);
    parts.extend(match (cause, message.filter(|message| !message.is_empty())) {
        (Some(cause), Some(message)) => Some(format!("{cause}: {message}")),
        (Some(cause), None) => Some(cause.to_owned()),
        (None, message) => message,
    });
    if let Some(ms) = decision.and_then(|record| record.delay_ms) {
        let wait = human_duration(Duration::from_millis(ms));
        parts.push(text(lang, "story.again-short", &[("wait", &wait)]));
    }
    let why = reason_of(event, lang);
    let why = why.filter(|why| !why.is_empty() && event.event_type != "redrive_ended");
    parts.extend(why.map(|why| beginning(&why, ROW_CHARS)));
    if event.status == EventStatus::Success {
        parts.extend(event.latency_ms.map(|ms| rough(Duration::from_millis(ms))));
    }
    parts.join(" · ")
}

/// Why it happened: for a target in our words, else in those of whoever did it.
fn reason_of(event: &Event, lang: Lang) -> Option<String> {
    if event.event_type == "job_parked" {
        return ParkedJob::of(&event.data).map(|parked| parked.why.words(&parked.target, lang));
    }
    event.data.get("why").and_then(|why| why.as_str()).map(|why| reason_in_words(why, lang))
}

/// What an event about redrive itself is about: what is wrong with the configuration or what of it changed, which schedule left out
/// how many ticks, whose template is broken.
fn about_redrive(event: &Event, lang: Lang) -> Option<String> {
    use serde_json::Value;
    let word = |name: &str| event.data.get(name).and_then(Value::as_str);
    let number = |name: &str| event.data.get(name).and_then(Value::as_u64).unwrap_or_default();
    let names = |name: &str| {
        let names = event.data.get(name).and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).collect::<Vec<&str>>()
    };
    match event.event_type.as_str() {
        "config_refused" => {
            let problems = names("problems");
            let first = beginning(problems.first()?, ROW_CHARS);
            let more = problems.len().saturating_sub(1);
            let values: [(&str, &dyn std::fmt::Display); 2] = [("first", &first), ("n", &more)];
            Some(if more > 0 { text(lang, "serve.and-more", &values) } else { first })
        }
        "config_reloaded" => {
            let (changed, restart) = (names("changed"), names("restart"));
            let told = |key: &str, names: &[&str]| text(lang, key, &[("names", &names.join(", "))]);
            let mut said = match (changed.as_slice(), restart.as_slice()) {
                ([], []) => say(lang, "serve.nothing-changed"),
                ([], _) => say(lang, "serve.nothing-took-effect"),
                (names, _) => told("serve.took-effect", names),
            };
            if !restart.is_empty() {
                said += &told("serve.needs-restart", &restart);
            }
            Some(said)
        }
        "schedule_missed" => {
            let schedule = word("schedule")?;
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("schedule", &schedule), ("skipped", &number("skipped")), ("fired", &number("fired"))];
            Some(text(lang, "story.ticks", &values))
        }
        "alert_template_broken" => word("receiver").map(str::to_owned),
        "push_disabled" => word("endpoint").map(str::to_owned),
        "payload_edited" => Some(text(lang, "story.version", &[("version", &number("version"))])),
        _ => None,
    }
}

/// What an operator did, or was not let do, to what.
fn about_an_act(event: &Event) -> Option<String> {
    let word = |name: &str| event.data.get(name).and_then(serde_json::Value::as_str);
    let act = word("act").filter(|_| event.event_type.starts_with("operator_"))?;
    Some(format!("{act} {}", beginning(word("target").unwrap_or_default(), ROW_CHARS)))
}

/// What is told of a redrive, beyond what kind of event it is: `redrive_2 (rule mirror) · letters: 5 · left alone: 1 auth_error`.
fn about_a_run(event: &Event, lang: Lang) -> Option<String> {
    let run = run_in(event)?;
    let mut parts = vec![match event.data.get("wanted_by").and_then(serde_json::Value::as_str) {
        Some(by) => text(lang, "story.run-by", &[("run", &run), ("by", &wanted_by(by, lang))]),
        None => run.to_owned(),
    }];
    // How it ended.
    let state = event.data.get("state").and_then(serde_json::Value::as_str).and_then(Badge::named);
    parts.extend(state.map(|badge| badge.span(lang).text));
    let plan = event.data.get("plan");
    if let Some(letters) = plan.and_then(|plan| plan.get("total")?.as_u64()) {
        parts.push(text(lang, "story.letters", &[("n", &letters)]));
    }
    let left = plan.and_then(|plan| plan.get("left_alone")?.as_object()).into_iter().flatten();
    let left: Vec<String> = left.map(|(cause, n)| format!("{n} {cause}")).collect();
    if !left.is_empty() {
        parts.push(text(lang, "story.left-alone", &[("left", &left.join(", "))]));
    }
    Some(parts.join(" · "))
}
