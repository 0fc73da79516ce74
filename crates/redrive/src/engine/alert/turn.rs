//! What the findings mean for what a receiver knows already: what is new, what goes on, what is over. Pure: the same state, findings
//! and time give the same messages.
//!
//! Each receiver has a state of its own, so that it hears the end of what it heard the beginning of, whichever process tells it. When
//! processes that tell the same receiver disagree about the thresholds, a rule is left to those by whose thresholds it was told, for as
//! long as one of them looks: otherwise one would tell that it is over, and the other that it is not, by turns.
//!
//! Dead letters are told by group. The first ones of a group are told at once; the others are gathered, and a summary tells how many
//! came. When none did, nothing is said, unless the first message told of a flood: then its end is news, for those who want to hear
//! of ends. When they go on coming, each summary waits twice as long as the one before.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_policy::{AlertSettings, Severity};
use redrive_store::{Group, Timestamp};
use serde::{Deserialize, Serialize};

use super::AlertProblem;
use super::facts::Facts;
use super::message::{GroupNote, Message, What};
use super::rules::{AlertRule, Finding};
use super::silence::Silence;
use crate::engine::EngineError;

/// The most groups that are remembered as told.
const MOST_GROUPS: usize = 1_000;
/// So many letters in the first message of a group are a flood, whose end is told.
const FLOOD: u64 = 100;
/// For how long thresholds count as somebody's after it was last said that they are, and how often that is said.
const LOOKED_AT_FOR: Duration = Duration::from_mins(1);
const SAY_EVERY: Duration = Duration::from_secs(20);
/// How long a summary waits at most.
const LONGEST: Duration = Duration::from_hours(4);

/// What a receiver knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct State {
    #[serde(default)]
    rules: BTreeMap<String, Known>,
    #[serde(default)]
    groups: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    /// By which thresholds somebody looked, and when last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    looked: BTreeMap<String, Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told_at: Option<Timestamp>,
    /// By which thresholds.
    #[serde(default)]
    by: String,
}

/// When the next summary is due, and how long the one after it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Summary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    wait_ms: u64,
    /// Whether there will be one, whatever comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    owed: bool,
}

impl State {
    pub(super) fn read(text: &str) -> Result<State, EngineError> {
        serde_json::from_str(text).map_err(|error| AlertProblem::Unreadable(error.to_string()).into())
    }

    pub(super) fn write(&self) -> Result<String, EngineError> {
        serde_json::to_string(self).map_err(EngineError::Payload)
    }

    /// Whether a rule was found firing by other thresholds than these, by which somebody still looks.
    fn is_of_others(&self, rule: &str, own: &str, now: Timestamp) -> bool {
        let by = self.rules.get(rule).map(|known| &known.by).filter(|by| *by != own);
        let last = by.and_then(|by| self.looked.get(by));
        last.is_some_and(|last| now.since(*last) < LOOKED_AT_FOR)
    }

    /// Says that somebody looks by these thresholds, as long as a rule was told by them.
    fn look_by(&mut self, own: &str, now: Timestamp) {
        let State { rules, looked, .. } = self;
        looked.retain(|by, _| rules.values().any(|known| known.by == *by));
        let told = rules.values().any(|known| known.by == own);
        if told && looked.get(own).is_none_or(|last| now.since(*last) >= SAY_EVERY) {
            looked.insert(own.to_owned(), now);
        }
    }

    pub(super) fn since(&self, rule: AlertRule) -> Option<Timestamp> {
        self.rules.get(rule.name()).map(|known| known.since)
    }

    pub(super) fn told_at(&self, rule: AlertRule) -> Option<Timestamp> {
        self.rules.get(rule.name()).and_then(|known| known.told_at)
    }
}

/// By what a receiver is told, as a text by which two processes find out whether theirs is the same.
pub(super) fn terms(settings: &AlertSettings, severity: Severity) -> String {
    let AlertSettings { dead_letters, letters_per_hour, min_samples, .. } = settings;
    let AlertSettings { recovery_success, retry_failure, duplicates, .. } = settings;
    let lengths = [settings.oldest_letter, settings.recovery_duration, settings.processing_delay];
    let lengths = lengths.map(|length| length.map(|length| length.as_millis().to_string()));
    let counts = [*dead_letters, *letters_per_hour, Some(*min_samples)].map(|n| n.map(|n| n.to_string()));
    let rates = [recovery_success, retry_failure, duplicates].map(|rate| rate.map(|rate| rate.to_string()));
    let all = counts.into_iter().chain(lengths).chain(rates).chain([Some(severity.name().to_owned())]);
    all.map(|one| one.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join("/")
}

/// What a receiver knows afterwards, and what it is told by these terms of ours.
pub(super) fn turn(
    settings: &AlertSettings,
    own: &str,
    before: &State,
    findings: &[Finding],
    facts: &Facts,
    silences: &[Silence],
    now: Timestamp,
) -> (State, Vec<Message>) {
    let mut after = before.clone();
    let mut messages = Vec::new();
    let of_others = |rule: &str| before.is_of_others(rule, own, now);
    // A rule that was switched off is over, and nobody needs to hear that.
    after
        .rules
        .retain(|name, _| of_others(name) || findings.iter().any(|finding| finding.rule.name() == name));
    for finding in findings.iter().filter(|finding| !of_others(finding.rule.name())) {
        let quiet = silences.iter().any(|silence| silence.covers_rule(finding.rule, now));
        let is_due = |known: &Known| {
            known.told_at.zip(settings.repeat_every).is_some_and(|(told, every)| told.after(every) <= now)
        };
        let known = after.rules.get(finding.rule.name()).cloned();
        let what = match (finding.firing, &known) {
            (true, None) => Some(What::Fired),
            (true, Some(known)) if known.told_at.is_none() => Some(What::Fired),
            (true, Some(known)) if is_due(known) => Some(What::Repeated),
            (true, Some(_)) | (false, None) => None,
            (false, Some(known)) => known.told_at.map(|_| What::Resolved),
        };
        let since = known.as_ref().map_or(now, |known| known.since);
        let told_at = known.as_ref().and_then(|known| known.told_at);
        if !finding.firing {
            after.rules.remove(finding.rule.name());
        }
        let mut told = what.filter(|_| !quiet).map(|what| Message::of(what, finding, since, now));
        if finding.rule == AlertRule::DeadLetters {
            let groups = Groups { settings, facts, silences, now, quiet };
            told = groups.tell(told, finding, since, told_at.is_some(), &mut after);
        }
        if finding.firing {
            let told_at = if told.is_some() { Some(now) } else { told_at };
            let known = Known { since, told_at, by: own.to_owned() };
            after.rules.insert(finding.rule.name().to_owned(), known);
        }
        messages.extend(told);
    }
    after.look_by(own, now);
    (after, messages)
}

/// Dead letters, group by group.
struct Groups<'a> {
    settings: &'a AlertSettings,
    facts: &'a Facts,
    silences: &'a [Silence],
    now: Timestamp,
    /// The rule itself is silenced.
    quiet: bool,
}

impl Groups<'_> {
    /// What is told of them: the message of the rule with the groups that it is about, or of its own.
    fn tell(
        &self,
        told: Option<Message>,
        finding: &Finding,
        since: Timestamp,
        known: bool,
        after: &mut State,
    ) -> Option<Message> {
        let open = |fingerprint: &String| self.facts.groups.iter().any(|one| one.fingerprint == *fingerprint);
        after.groups.retain(|fingerprint, _| open(fingerprint));
        if !finding.firing {
            after.groups.clear();
            after.summary = None;
            return told;
        }
        if self.quiet {
            return None;
        }
        let heard = |group: &&Group| {
            !self.silences.iter().any(|silence| silence.covers_group(&group.fingerprint, self.now))
        };
        let groups: Vec<&Group> = self.facts.groups.iter().filter(heard).collect();
        let room = MOST_GROUPS.saturating_sub(after.groups.len());
        let new: Vec<&Group> = groups
            .iter()
            .copied()
            .filter(|group| !after.groups.contains_key(&group.fingerprint))
            // What cannot be remembered would be news for ever; it counts in what the rule tells.
            .take(room)
            .collect();
        for group in &new {
            after.groups.insert(group.fingerprint.clone(), failures(group));
        }
        let usual = u64::try_from(self.settings.summary_after.as_millis()).unwrap_or(u64::MAX);
        let mut summary = after.summary.unwrap_or(Summary { due: None, wait_ms: usual, owed: false });
        if !new.is_empty() {
            summary.wait_ms = usual;
            summary.owed |= new.iter().any(|group| letters(group) >= FLOOD);
        }
        let grown: Vec<(&Group, u64)> = groups
            .iter()
            .filter_map(|group| {
                let more = failures(group).saturating_sub(*after.groups.get(&group.fingerprint)?);
                (more > 0).then_some((*group, more))
            })
            .collect();
        let is_wanted = summary.owed || !grown.is_empty();
        if summary.due.is_none() && is_wanted {
            summary.due = Some(self.now.after(Duration::from_millis(summary.wait_ms)));
        }
        let summary_is_due = summary.due.is_some_and(|due| due <= self.now);
        let message = match told {
            _ if !new.is_empty() => {
                let what = if known { What::Group } else { What::Fired };
                Some(Message { groups: notes(&new), ..Message::of(what, finding, since, self.now) })
            }
            // Everything that there is, is silenced.
            Some(_) if groups.is_empty() => None,
            Some(message) => Some(Message { groups: notes(&groups), ..message }),
            None if summary_is_due && is_wanted => {
                for (group, _) in &grown {
                    after.groups.insert(group.fingerprint.clone(), failures(group));
                }
                let longest = u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX);
                let wait_ms = summary.wait_ms.saturating_mul(2).min(longest.max(usual));
                summary = Summary { due: None, wait_ms, owed: false };
                let more = grown.iter().map(|(_, more)| more).sum();
                let about: Vec<&Group> = match grown.as_slice() {
                    [] => groups,
                    grown => grown.iter().map(|(group, _)| *group).collect(),
                };
                let message = Message::of(What::Summary, finding, since, self.now);
                Some(Message { more: Some(more), groups: notes(&about), ..message })
            }
            None => None,
        };
        after.summary = Some(summary);
        message
    }
}

fn failures(group: &Group) -> u64 {
    u64::try_from(group.counts.failures).unwrap_or(0)
}

fn letters(group: &Group) -> u64 {
    u64::try_from(group.counts.letters).unwrap_or(0)
}

fn notes(groups: &[&Group]) -> Vec<GroupNote> {
    groups.iter().take(GroupNote::MOST).map(|group| GroupNote::of(group)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rules::findings;
    use super::*;
    use redrive_store::{GroupCounts, GroupState};

    const MINUTE: Duration = Duration::from_mins(1);

    fn group(fingerprint: &str, letters: i64) -> Group {
        Group {
            fingerprint: fingerprint.to_owned(),
            cause: redrive_policy::Cause::Network,
            error_type: "Refused".to_owned(),
            sample: "connection refused".to_owned(),
            counts: GroupCounts { letters, failures: letters, ..GroupCounts::default() },
            first_seen: Timestamp::default(),
            last_seen: Timestamp::default(),
            state: GroupState::Open,
            state_since: Timestamp::default(),
            note: None,
        }
    }

    /// Somebody who looks again and again.
    struct Look {
        settings: AlertSettings,
        state: State,
        silences: Vec<Silence>,
        now: Timestamp,
    }

    impl Look {
        fn new() -> Look {
            let now = "2026-11-15T12:00:00Z".parse().unwrap();
            Look { settings: AlertSettings::default(), state: State::default(), silences: Vec::new(), now }
        }

        fn after(&mut self, time: Duration, groups: Vec<Group>) -> Vec<(What, Option<u64>, usize)> {
            self.now = self.now.after(time);
            let letters = groups.iter().map(letters).sum();
            let facts = Facts { letters, groups, ..Facts::default() };
            let found = findings(&self.settings, &facts);
            let own = terms(&self.settings, Severity::Warning);
            let (state, messages) =
                turn(&self.settings, &own, &self.state, &found, &facts, &self.silences, self.now);
            self.state = State::read(&state.write().unwrap()).unwrap();
            assert_eq!(self.state, state, "what is kept is read back");
            messages.iter().map(|message| (message.what, message.more, message.groups.len())).collect()
        }
    }

    /// R-C5: two thousand letters of one group are one message at once and one summary, however they come.
    #[test]
    fn two_thousand_letters_are_two_messages() {
        for (steps, more) in
            [(vec![1, 400, 1_999, 2_000], 1_999), (vec![400, 2_000], 1_600), (vec![2_000], 0)]
        {
            let mut look = Look::new();
            let mut told = Vec::new();
            for letters in steps {
                told.extend(look.after(MINUTE, vec![group("a", letters)]));
            }
            for _ in 0..60 {
                told.extend(look.after(MINUTE, vec![group("a", 2_000)]));
            }
            assert_eq!(told, [(What::Fired, None, 1), (What::Summary, Some(more), 1)]);
        }
    }

    /// R-C5: nobody is called again to hear that nothing more has happened.
    #[test]
    fn a_few_letters_at_once_are_one_message() {
        for at_once in [1, 6, 99] {
            let mut look = Look::new();
            assert_eq!(look.after(MINUTE, vec![group("a", at_once)]), [(What::Fired, None, 1)]);
            for _ in 0..60 {
                assert_eq!(look.after(MINUTE, vec![group("a", at_once)]), [], "{at_once}");
            }
            // One more is news, and is gathered as ever.
            assert_eq!(look.after(MINUTE, vec![group("a", at_once + 1)]), []);
            let told = look.after(10 * MINUTE, vec![group("a", at_once + 1)]);
            assert_eq!(told, [(What::Summary, Some(1), 1)], "{at_once}");
        }
    }

    /// R-C5: what goes on is told again, what is over is told once, and nothing is told twice.
    #[test]
    fn an_alert_fires_repeats_and_resolves() {
        let mut look = Look::new();
        assert_eq!(look.after(MINUTE, vec![group("a", 1)]), [(What::Fired, None, 1)]);
        assert_eq!(look.after(MINUTE, vec![group("a", 1)]), []);
        assert_eq!(look.after(MINUTE, vec![group("a", 1), group("b", 1)]), [(What::Group, None, 1)]);
        let hours = Duration::from_hours(4);
        assert_eq!(look.after(hours, vec![group("a", 1), group("b", 1)]), [(What::Repeated, None, 2)]);
        assert_eq!(look.after(MINUTE, vec![]), [(What::Resolved, None, 0)]);
        assert_eq!(look.after(MINUTE, vec![]), []);
        // A group that comes back is news.
        assert_eq!(look.after(MINUTE, vec![group("a", 1)]), [(What::Fired, None, 1)]);
    }

    /// R-C5: however many groups there are, what was told once is no news.
    #[test]
    fn more_groups_than_are_remembered_are_told_once() {
        let mut look = Look::new();
        let all = |count: usize| (0..count).map(|number| group(&format!("g{number}"), 1)).collect::<Vec<_>>();
        let most = GroupNote::MOST;
        assert_eq!(look.after(MINUTE, all(MOST_GROUPS + 200)), [(What::Fired, None, most)]);
        for _ in 0..10 {
            assert_eq!(look.after(MINUTE, all(MOST_GROUPS + 200)), []);
        }
        // Once others are gone there is room for what could not be remembered.
        let rest = all(MOST_GROUPS + 200).split_off(100);
        assert_eq!(look.after(MINUTE, rest), [(What::Group, None, most)]);
    }

    /// R-C5: letters that go on coming are told ever more seldom.
    #[test]
    fn summaries_wait_longer_and_longer() {
        let mut look = Look {
            settings: AlertSettings { repeat_every: None, ..AlertSettings::default() },
            ..Look::new()
        };
        let mut minutes = Vec::new();
        for minute in 0..120 {
            let told = look.after(MINUTE, vec![group("a", 1 + minute)]);
            minutes.extend(told.iter().map(|(what, ..)| (minute, *what)));
        }
        let expected = [
            (0, What::Fired),
            (6, What::Summary),
            (17, What::Summary),
            (38, What::Summary),
            (79, What::Summary),
        ];
        assert_eq!(minutes, expected);
    }

    /// R-C5: what is silenced is not told, and is told afterwards if it still is so.
    #[test]
    fn what_is_silenced_waits() {
        let mut look = Look::new();
        let until = look.now.after(10 * MINUTE);
        let silence = Silence {
            id: "dead_letters".to_owned(),
            rule: Some("dead_letters".to_owned()),
            group: None,
            until,
            why: None,
            by: "test".to_owned(),
        };
        look.silences = vec![silence.clone()];
        assert_eq!(look.after(MINUTE, vec![group("a", 1)]), []);
        assert_eq!(look.after(10 * MINUTE, vec![group("a", 1)]), [(What::Fired, None, 1)]);
        let until = look.now.after(10 * MINUTE);
        look.silences = vec![Silence { rule: None, group: Some("b".to_owned()), until, ..silence }];
        assert_eq!(look.after(MINUTE, vec![group("a", 1), group("b", 5)]), []);
        assert_eq!(
            look.after(MINUTE, vec![group("a", 1), group("b", 5), group("c", 1)]),
            [(What::Group, None, 1)]
        );
        assert_eq!(look.after(10 * MINUTE, vec![group("a", 1), group("b", 5)]), [(What::Group, None, 1)]);
    }

    /// R-C5: an alert that was never told is not told to be over.
    #[test]
    fn what_nobody_heard_of_is_not_told_to_be_over() {
        let mut look = Look::new();
        let until = look.now.after(Duration::from_hours(1));
        let rule = Some("dead_letters".to_owned());
        look.silences =
            vec![Silence { id: "x".to_owned(), rule, group: None, until, why: None, by: "test".to_owned() }];
        assert_eq!(look.after(MINUTE, vec![group("a", 1)]), []);
        assert_eq!(look.after(MINUTE, vec![]), []);
        assert_eq!(look.state, State::default());
    }
}
