//! When people are told that something is wrong, and how, as a file writes it (R-C5).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::Notes;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::read_policy::named;
use super::words::short;
use crate::lang::Lang;

/// When people are told that something is wrong, and who. The seeds' thresholds hold where a file says nothing; a rule without a
/// threshold is off.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertSettings {
    /// So many dead letters or more; those of acknowledged groups do not count.
    pub dead_letters: Option<u64>,
    /// The oldest dead letter is older.
    pub oldest_letter: Option<Duration>,
    /// Fewer redriven jobs succeed, in percent.
    pub recovery_success: Option<f64>,
    /// Redriven jobs take longer, on average.
    pub recovery_duration: Option<Duration>,
    /// More jobs died within an hour.
    pub letters_per_hour: Option<u64>,
    /// More retried jobs died, in percent of those that ended.
    pub retry_failure: Option<f64>,
    /// More requests with a key came again, in percent.
    pub duplicates: Option<f64>,
    /// Attempts take longer, on average.
    pub processing_delay: Option<Duration>,
    /// A rate of fewer says nothing.
    pub min_samples: u64,
    /// How often an alert that goes on is told again; none: never.
    pub repeat_every: Option<Duration>,
    /// How long the letters of a group are gathered.
    pub summary_after: Duration,
    /// The policy under which messages are delivered.
    pub policy: Option<String>,
    /// Who is told.
    pub receivers: Vec<AlertReceiver>,
}

impl Default for AlertSettings {
    fn default() -> AlertSettings {
        AlertSettings {
            dead_letters: Some(1),
            oldest_letter: Some(Duration::from_hours(24)),
            recovery_success: Some(80.0),
            recovery_duration: Some(Duration::from_mins(5)),
            letters_per_hour: Some(10),
            retry_failure: Some(5.0),
            duplicates: Some(50.0),
            processing_delay: Some(Duration::from_mins(5)),
            min_samples: 20,
            repeat_every: Some(Duration::from_hours(4)),
            summary_after: Duration::from_mins(5),
            policy: None,
            receivers: Vec::new(),
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Severity {
    /// Somebody should look.
    #[default]
    Warning,
    /// Somebody must look.
    Critical,
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// Somebody who is told.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertReceiver {
    /// Its name.
    pub name: String,
    /// How.
    pub by: AlertBy,
    /// The file with a template for its messages.
    pub template: Option<String>,
    /// The language of its messages.
    pub lang: Option<Lang>,
    /// Only what is at least so bad.
    pub severity: Severity,
    /// Whether it is also told when it is over.
    pub resolved: bool,
}

/// How somebody is told.
#[derive(Clone, PartialEq, Eq)]
pub enum AlertBy {
    /// By a request to this address, which may hold a secret.
    Webhook {
        /// Where to.
        url: String,
        /// In the form that Slack takes.
        slack: bool,
        /// Headers, which may hold secrets.
        headers: BTreeMap<String, String>,
    },
    /// By a command that gets the message on stdin.
    Command(Vec<String>),
}

/// Neither addresses nor headers are shown: they are often secrets.
impl std::fmt::Debug for AlertReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlertReceiver").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AlertBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AlertBy::Webhook { .. } => "Webhook",
            AlertBy::Command(_) => "Command",
        })
    }
}

/// The section `alerts`.
pub(super) fn read(file: &Node, notes: &mut Notes) -> AlertSettings {
    let usual = AlertSettings::default();
    let Some(section) = file.get("alerts") else { return usual };
    let is_off = |name: &str| section.get(name).and_then(Node::bool) == Some(false);
    let length = |name: &str, usual: Option<Duration>| {
        if is_off(name) { None } else { duration(section, name, name).or(usual) }
    };
    let percent = |name: &str, usual: Option<f64>| {
        if is_off(name) { None } else { section.get(name).and_then(Node::number_value).or(usual) }
    };
    let whole = |name: &str| section.get(name).and_then(Node::whole).and_then(|n| u64::try_from(n).ok());
    let count = |name: &str, usual: Option<u64>| if is_off(name) { None } else { whole(name).or(usual) };
    AlertSettings {
        dead_letters: count("dead_letters", usual.dead_letters),
        oldest_letter: length("oldest_letter", usual.oldest_letter),
        recovery_success: percent("recovery_success", usual.recovery_success),
        recovery_duration: length("recovery_duration", usual.recovery_duration),
        letters_per_hour: count("letters_per_hour", usual.letters_per_hour),
        retry_failure: percent("retry_failure", usual.retry_failure),
        duplicates: percent("duplicates", usual.duplicates),
        processing_delay: length("processing_delay", usual.processing_delay),
        min_samples: whole("min_samples").unwrap_or(usual.min_samples),
        repeat_every: length("repeat_every", usual.repeat_every),
        summary_after: duration(section, "summary_after", "summary_after").unwrap_or(usual.summary_after),
        policy: section.get("policy").and_then(Node::text).map(str::to_owned),
        receivers: read_receivers(section, notes),
    }
}

fn read_receivers(section: &Node, notes: &mut Notes) -> Vec<AlertReceiver> {
    let Some(Value::List(items)) = section.get("receivers").map(|receivers| &receivers.value) else {
        return Vec::new();
    };
    let mut names = HashSet::new();
    let mut receivers = Vec::new();
    for (i, item) in items.iter().enumerate() {
        if let Some(field) = item.get("name")
            && let Some(name) = field.text()
            && !names.insert(name)
        {
            let path = Path::Top.field("alerts");
            let kind = ProblemKind::GivenTwice { name: short(name) };
            notes.wrong.add(field.at, &path.field("receivers").item(i).field("name"), kind, Expected::Once);
        }
        receivers.extend(read_receiver(item));
    }
    receivers
}

/// `None` for one that cannot be read; the shape has said why.
fn read_receiver(node: &Node) -> Option<AlertReceiver> {
    let text = |field: &str| node.get(field).and_then(Node::text);
    let by = match (text("webhook"), node.get("command")) {
        (Some(url), _) => AlertBy::Webhook {
            url: url.to_owned(),
            slack: text("format") == Some("slack"),
            headers: node
                .get("headers")
                .map(Node::fields)
                .unwrap_or_default()
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned())))
                .collect(),
        },
        (None, Some(command)) => AlertBy::Command(match command.text() {
            Some(script) => ["sh", "-c", script].map(str::to_owned).to_vec(),
            None => command.items().iter().filter_map(Node::text).map(str::to_owned).collect(),
        }),
        (None, None) => return None,
    };
    Some(AlertReceiver {
        name: text("name")?.to_owned(),
        by,
        template: text("template").map(str::to_owned),
        lang: named(node, "lang"),
        severity: if text("severity") == Some("critical") { Severity::Critical } else { Severity::Warning },
        resolved: node.get("resolved").and_then(Node::bool).unwrap_or(true),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<AlertSettings, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.alerts).map_err(|error| error.to_string())
    }

    /// R-C5: the seeds' thresholds hold where nothing is said; a rule can be moved, or switched off.
    #[test]
    fn thresholds_are_the_seeds_own_unless_a_file_says_otherwise() {
        let usual = parse("").unwrap();
        assert_eq!(usual, AlertSettings::default());
        assert_eq!((usual.dead_letters, usual.letters_per_hour, usual.min_samples), (Some(1), Some(10), 20));
        assert_eq!((usual.recovery_success, usual.retry_failure), (Some(80.0), Some(5.0)));
        assert_eq!((usual.duplicates, usual.processing_delay), (Some(50.0), Some(Duration::from_mins(5))));
        assert_eq!(usual.oldest_letter, Some(Duration::from_hours(24)));
        assert_eq!(usual.recovery_duration, Some(Duration::from_mins(5)));
        let moved = parse(
            "[alerts]\ndead_letters = 3\noldest_letter = \"2h\"\nduplicates = false\nretry_failure = 7.5\n",
        );
        let moved = moved.unwrap();
        assert_eq!((moved.dead_letters, moved.oldest_letter), (Some(3), Some(Duration::from_hours(2))));
        assert_eq!((moved.duplicates, moved.retry_failure), (None, Some(7.5)));
    }

    /// R-C5: receivers by webhook and by command, and what cannot be one.
    #[test]
    fn receivers_are_read_and_checked() {
        let text = "[[alerts.receivers]]\nname = \"chat\"\nwebhook = \"https://hooks.example.com/T/B/secret\"\nformat = \"slack\"\nlang = \"ja\"\n\
                    [[alerts.receivers]]\nname = \"pager\"\ncommand = [\"page\", \"--now\"]\nseverity = \"critical\"\nresolved = false\n";
        let receivers = parse(text).unwrap().receivers;
        assert!(matches!(&receivers[0].by, AlertBy::Webhook { slack: true, .. }));
        assert_eq!(receivers[0].lang, Some(Lang::Ja));
        assert_eq!(receivers[1].by, AlertBy::Command(vec!["page".to_owned(), "--now".to_owned()]));
        assert_eq!((receivers[1].severity, receivers[1].resolved), (Severity::Critical, false));
        assert!(!format!("{receivers:?}").contains("secret"));
        let twice = "[[alerts.receivers]]\nname = \"a\"\ncommand = \"true\"\n".repeat(2);
        assert!(parse(&twice).unwrap_err().contains("alerts.receivers[1].name"));
        let neither = parse("[[alerts.receivers]]\nname = \"a\"\n").unwrap_err();
        assert!(neither.contains("webhook") && neither.contains("command"), "{neither}");
        assert!(parse("[[alerts.receivers]]\nname = \"a\"\nwebhook = \"ftp://x\"\n").is_err());
        assert!(parse("[alerts]\ndead_letters = 0\n").is_err());
        assert!(parse("[alerts]\nretry_failure = 101\n").is_err());
    }
}
