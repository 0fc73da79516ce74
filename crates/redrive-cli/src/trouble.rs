//! Our own trouble, as opposed to the failures we are asked about: what went wrong and what to do next.

mod alert;
mod desk;
mod filter;
mod outbox;
mod proxy;
mod push;
mod schedule;
mod serve;
mod snapshot;
mod task;

use std::io;
use std::path::PathBuf;

use redrive::BadCall;
use redrive::engine::{EngineError, RuleProblem};
use redrive::snapshot::SnapshotError;
use redrive_policy::{ConfigError, Lang, nearest};
use redrive_store::{KeyTrouble, LineTrouble, Refusal, StoreError, Trouble as StoreTrouble};

use crate::args::BadFilter;
use crate::exit::Exit;
use crate::pointer::point;
pub(crate) use desk::DeskTrouble;
pub(crate) use outbox::OutboxTrouble;
pub(crate) use proxy::ProxyTrouble;
pub(crate) use push::PushTrouble;
pub(crate) use schedule::ScheduleTrouble;
pub(crate) use serve::ServeTrouble;
pub(crate) use task::{TaskTrouble, placed};

use crate::secret;
use crate::text::{say, text};

/// Why a command line did not do what was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The command line is wrong; already in the user's language.
    Usage { message: String, hint: Option<String> },
    /// `help` for a command that does not exist.
    UnknownCommand { written: String, known: Vec<String> },
    /// A flag names a policy that does not exist.
    UnknownPolicy { written: String, known: Vec<String> },
    /// A policy was looked up and not found.
    NoSuchPolicy { written: String, known: Vec<String> },
    /// Nothing was said about the failure that is to be explained.
    NoEvidence,
    /// A file could not be read.
    Unreadable { path: PathBuf, source: io::Error },
    /// The configuration in force is broken.
    BrokenConfig(ConfigError),
    /// There is no configuration to check.
    NoConfig,
    /// A labelled corpus has no usable entry.
    EmptyCorpus,
    /// Output could not be written.
    Output(io::Error),
    /// Input could not be read.
    Input(io::Error),
    /// The store's URL cannot be understood.
    BadStore { url: String },
    /// There is no store to look at.
    NoStore { path: PathBuf },
    /// The store cannot be opened.
    Opening { path: PathBuf, error: StoreError },
    /// The store itself is in trouble.
    Store(StoreError),
    /// The keys of the store cannot be used.
    Keys(KeyTrouble),
    /// The engine itself is in trouble, which has no words of its own.
    Engine(EngineError),
    /// No such job.
    NoJob { id: String, store: String },
    /// The job is there and is no dead letter.
    NoLetter { id: String, store: String },
    /// There are no dead letters at all.
    NoLetters { store: String },
    /// No letter is one of those that were asked for.
    NothingMatches { asked: String, store: String },
    /// Nothing failed in the period that was to be simulated.
    NothingRecorded { store: String },
    /// No group has such a fingerprint.
    NoGroup { prefix: String, store: String },
    /// Several groups have fingerprints that begin so.
    AmbiguousGroup { prefix: String, candidates: Vec<String> },
    /// No redrive has this number.
    NoRun { id: redrive_store::RunId, store: String },
    /// A rule of automatic recovery that cannot be obeyed.
    RecoveryRule { rule: String, why: RuleProblem },
    /// It must be confirmed, and nobody is there to ask.
    NeedsYes { what: String, command: String },
    /// `--http` names a call that nobody can make.
    BadCall(BadCall),
    /// A command without a name.
    NoCommand,
    /// The directory that we stand in is gone, so no command can be run in it later.
    NoDirectory,
    /// More than a job may hold.
    TooLarge { most: usize },
    /// `--payload` is no JSON.
    BadPayload(serde_json::Error),
    /// A file that would be overwritten.
    Exists { path: PathBuf },
    /// A file that cannot be written.
    Unwritable { path: PathBuf, source: io::Error },
    /// The runtime cannot be started.
    NoRuntime(io::Error),
    /// A review that came to no judgment.
    Review(Box<redrive::review::ReviewTrouble>),
    /// A filter cannot be read.
    Filter(BadFilter),
    /// Nothing is known by this id.
    NothingNamed { id: String, store: String },
    /// The beginning of several ids.
    Ambiguous { written: String, named: Vec<String> },
    /// A line of stdin names no id.
    BadIdLine { number: u64, line: String },
    /// More ids than are read.
    TooManyIds { most: usize },
    /// Stdin named no id at all.
    NoIds,
    /// While something was mended.
    Desk(DeskTrouble),
    /// The trouble of those who run tasks.
    Task(TaskTrouble),
    /// The trouble of those who put a proxy in front of a service.
    Proxy(ProxyTrouble),
    /// The trouble of those who run a server.
    Serve(ServeTrouble),
    /// The trouble with snapshots of files.
    Snapshot(SnapshotError),
    /// Nobody knows where this user keeps things.
    NoSnapshotPlace,
    /// The trouble of those who send later.
    Outbox(OutboxTrouble),
    /// The trouble of those who want to be told.
    Alert(redrive::engine::AlertProblem),
    /// The trouble of those who want work done by the clock.
    Schedule(ScheduleTrouble),
    /// The trouble of those who have services called.
    Push(PushTrouble),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Trouble {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::UnknownPolicy { name, known } => Trouble::UnknownPolicy { written: name, known },
            EngineError::BadRecoveryRule { rule, why } => Trouble::RecoveryRule { rule, why },
            EngineError::Alert(problem) => Trouble::Alert(problem),
            EngineError::Schedule(problem) => Trouble::Schedule(ScheduleTrouble::Problem(problem)),
            EngineError::Push(problem) => Trouble::Push(PushTrouble::Problem(problem)),
            EngineError::Io(error) => Trouble::Input(error),
            EngineError::HttpClient(error) => Trouble::NoRuntime(std::io::Error::other(error)),
            other => Trouble::Engine(other),
        }
    }
}

impl From<SnapshotError> for Trouble {
    fn from(error: SnapshotError) -> Trouble {
        Trouble::Snapshot(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error.trouble() {
            StoreTrouble::Refused(Refusal::PayloadTooLarge { most, .. }) => Trouble::TooLarge { most: *most },
            _ => Trouble::Store(error),
        }
    }
}

/// The field of a rule of automatic recovery that is wrong, what is wrong with it, and what may stand there.
pub(crate) fn rule_in_words(problem: &RuleProblem, lang: Lang) -> (&'static str, String, String) {
    match problem {
        RuleProblem::Filter(error) => {
            ("where", filter::in_words(&error.problem, lang), filter::hint(&error.problem, lang))
        }
        RuleProblem::Rate(rate) => {
            let rate = secret::blanked(rate);
            ("rate", text(lang, "trouble.bad-rate", &[("rate", &rate)]), say(lang, "allowed.rate"))
        }
    }
}

impl Trouble {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Trouble::Desk(trouble) => trouble.exit(),
            Trouble::Task(trouble) => trouble.exit(),
            Trouble::Proxy(trouble) => trouble.exit(),
            Trouble::Serve(trouble) => trouble.exit(),
            Trouble::Snapshot(error) => snapshot::exit(error),
            Trouble::Outbox(trouble) => trouble.exit(),
            Trouble::Alert(problem) => alert::exit(problem),
            Trouble::Schedule(trouble) => trouble.exit(),
            Trouble::Push(trouble) => trouble.exit(),
            Trouble::Store(error) if matches!(error.trouble(), StoreTrouble::BadAddress { .. }) => {
                Exit::Usage
            }
            Trouble::Store(error) | Trouble::Opening { error, .. }
                if matches!(error.trouble(), StoreTrouble::Broken(_)) =>
            {
                Exit::Disk
            }
            Trouble::NoSnapshotPlace
            | Trouble::Usage { .. }
            | Trouble::UnknownCommand { .. }
            | Trouble::UnknownPolicy { .. }
            | Trouble::NoEvidence
            | Trouble::BadStore { .. }
            | Trouble::NeedsYes { .. }
            | Trouble::AmbiguousGroup { .. }
            | Trouble::BadCall(_)
            | Trouble::NoCommand
            | Trouble::BadPayload(_)
            | Trouble::Filter(_)
            | Trouble::Ambiguous { .. }
            | Trouble::BadIdLine { .. }
            | Trouble::TooManyIds { .. } => Exit::Usage,
            Trouble::NoSuchPolicy { .. }
            | Trouble::NoConfig
            | Trouble::EmptyCorpus
            | Trouble::NoStore { .. }
            | Trouble::NoJob { .. }
            | Trouble::NoLetter { .. }
            | Trouble::NothingMatches { .. }
            | Trouble::NothingRecorded { .. }
            | Trouble::NoGroup { .. }
            | Trouble::NoRun { .. }
            | Trouble::NoLetters { .. }
            | Trouble::NothingNamed { .. }
            | Trouble::NoIds => Exit::Nothing,
            Trouble::Unreadable { .. }
            | Trouble::BrokenConfig(_)
            | Trouble::RecoveryRule { .. }
            | Trouble::Output(_)
            | Trouble::Input(_)
            | Trouble::Opening { .. }
            | Trouble::Store(_)
            | Trouble::Keys(_)
            | Trouble::Engine(_)
            | Trouble::Exists { .. }
            | Trouble::NoDirectory
            | Trouble::TooLarge { .. }
            | Trouble::Unwritable { .. }
            | Trouble::Review(_)
            | Trouble::NoRuntime(_) => Exit::Failed,
        }
    }

    /// What is wrong, a line each: a broken file has many problems, everything else is one.
    pub(crate) fn messages(&self, lang: Lang) -> Vec<String> {
        match self {
            Trouble::BrokenConfig(error) => error.lines(lang),
            Trouble::Desk(trouble) => trouble.messages(lang),
            Trouble::Task(trouble) => trouble.messages(lang),
            Trouble::Snapshot(error) => snapshot::messages(error, lang),
            _ => vec![self.message(lang)],
        }
    }

    /// What was written, and a mark under the place that is wrong; for those that point.
    pub(crate) fn drawing(&self, columns: usize) -> Option<[String; 2]> {
        match self {
            // What has a secret in it is not shown again.
            Trouble::Filter(bad) if !bad.text.trim().is_empty() && secret::blanked(&bad.text) == bad.text => {
                Some(point(&bad.text, bad.error.span.clone(), columns))
            }
            Trouble::Schedule(trouble) => {
                trouble.place().map(|(written, place)| point(written, place, columns))
            }
            _ => None,
        }
    }

    fn message(&self, lang: Lang) -> String {
        match self {
            Trouble::Usage { message, .. } => message.clone(),
            Trouble::UnknownCommand { written, .. } => {
                text(lang, "usage.unknown-command", &[("command", &secret::blanked(written))])
            }
            Trouble::UnknownPolicy { written, known } | Trouble::NoSuchPolicy { written, known } => text(
                lang,
                "trouble.unknown-policy",
                &[("name", &secret::blanked(written)), ("names", &known.join(", "))],
            ),
            Trouble::NoEvidence => say(lang, "trouble.no-evidence"),
            Trouble::Unreadable { path, source } => text(
                lang,
                "trouble.unreadable",
                &[("path", &path.display()), ("error", &system_error(source, lang))],
            ),
            Trouble::BrokenConfig(error) => error.describe(lang),
            Trouble::NoConfig => say(lang, "trouble.no-config"),
            Trouble::EmptyCorpus => say(lang, "trouble.empty-corpus"),
            Trouble::Output(error) => text(lang, "trouble.output", &[("error", &system_error(error, lang))]),
            Trouble::Input(error) => text(lang, "trouble.input", &[("error", &system_error(error, lang))]),
            Trouble::BadStore { url } => text(lang, "trouble.bad-store", &[("url", &secret::blanked(url))]),
            Trouble::NoStore { path } => text(lang, "trouble.no-store", &[("path", &path.display())]),
            Trouble::Opening { path, error } => {
                let words = store_in_words(error.trouble(), lang);
                let path = path.display().to_string();
                if words.contains(&path) { words } else { format!("{path}: {words}") }
            }
            Trouble::Store(error) => store_in_words(error.trouble(), lang),
            Trouble::Keys(error) => keys_in_words(error, lang),
            Trouble::Engine(error) => text(lang, "trouble.store.other", &[("why", error)]),
            Trouble::NoJob { id, store } => text(lang, "trouble.no-job", &[("id", id), ("store", store)]),
            Trouble::NoLetter { id, store } => {
                text(lang, "trouble.no-letter", &[("id", id), ("store", store)])
            }
            Trouble::NoLetters { store } => text(lang, "trouble.no-letters", &[("store", store)]),
            Trouble::RecoveryRule { rule, why } => {
                let (field, what, _) = rule_in_words(why, lang);
                text(lang, "trouble.recovery-rule", &[("rule", rule), ("field", &field), ("what", &what)])
            }
            Trouble::NothingRecorded { store } => text(lang, "trouble.nothing-recorded", &[("store", store)]),
            Trouble::NothingMatches { asked, store } => {
                text(lang, "trouble.nothing-matches", &[("asked", &secret::blanked(asked)), ("store", store)])
            }
            Trouble::NoGroup { prefix, store } => {
                text(lang, "trouble.no-group", &[("prefix", prefix), ("store", store)])
            }
            Trouble::AmbiguousGroup { prefix, candidates } => {
                let names = candidates.join(", ");
                text(lang, "trouble.ambiguous-group", &[("prefix", prefix), ("names", &names)])
            }
            Trouble::NoRun { id, store } => text(lang, "trouble.no-run", &[("id", id), ("store", store)]),
            Trouble::NeedsYes { what, .. } => text(lang, "trouble.needs-yes", &[("what", what)]),
            Trouble::BadCall(error) => call_in_words(error, lang),
            Trouble::NoCommand => say(lang, "trouble.no-command"),
            Trouble::NoDirectory => say(lang, "trouble.no-directory"),
            Trouble::TooLarge { most } => text(lang, "trouble.too-large", &[("most", most)]),
            Trouble::BadPayload(error) => text(lang, "trouble.bad-payload", &[("error", error)]),
            Trouble::Exists { path } => text(lang, "trouble.exists", &[("path", &path.display())]),
            Trouble::Unwritable { path, source } => text(
                lang,
                "trouble.unwritable",
                &[("path", &path.display()), ("error", &system_error(source, lang))],
            ),
            Trouble::NoRuntime(error) => {
                text(lang, "trouble.no-runtime", &[("error", &system_error(error, lang))])
            }
            Trouble::Review(trouble) => text(lang, "review.no-judgment", &[("why", trouble)]),
            Trouble::Filter(bad) => filter::in_words(&bad.error.problem, lang),
            Trouble::NothingNamed { id, store } => {
                text(lang, "trouble.nothing-named", &[("id", &secret::blanked(id)), ("store", store)])
            }
            Trouble::Ambiguous { written, named } => text(
                lang,
                "trouble.ambiguous",
                &[("id", &secret::blanked(written)), ("names", &named.join(", "))],
            ),
            Trouble::BadIdLine { number, line } => {
                text(lang, "trouble.bad-id-line", &[("n", number), ("line", &secret::blanked(line))])
            }
            Trouble::TooManyIds { most } => text(lang, "trouble.too-many-ids", &[("most", most)]),
            Trouble::NoIds => say(lang, "trouble.no-ids"),
            // It may have several lines; where only one is wanted they stand in one.
            Trouble::Desk(trouble) => trouble.messages(lang).join("; "),
            Trouble::Task(trouble) => trouble.message(lang),
            Trouble::Proxy(trouble) => trouble.message(lang),
            Trouble::Serve(trouble) => trouble.message(lang),
            Trouble::Snapshot(error) => snapshot::messages(error, lang).join("; "),
            Trouble::Outbox(trouble) => trouble.message(lang),
            Trouble::Alert(problem) => alert::message(problem, lang),
            Trouble::Schedule(trouble) => trouble.message(lang),
            Trouble::Push(trouble) => trouble.message(lang),
            Trouble::NoSnapshotPlace => say(lang, "trouble.snapshot.no-place"),
        }
    }

    pub(crate) fn hint(&self, lang: Lang) -> Option<String> {
        match self {
            Trouble::Usage { hint, .. } => hint.clone(),
            Trouble::UnknownCommand { written, known }
            | Trouble::UnknownPolicy { written, known }
            | Trouble::NoSuchPolicy { written, known } => {
                let meant = nearest(written, known.iter().map(String::as_str));
                let otherwise = match self {
                    Trouble::UnknownCommand { .. } => "usage.see-help",
                    _ => "trouble.hint.policies",
                };
                Some(meant.map_or_else(
                    || say(lang, otherwise),
                    |name| text(lang, "usage.did-you-mean", &[("name", &name)]),
                ))
            }
            Trouble::NoEvidence => Some(say(lang, "trouble.hint.no-evidence")),
            Trouble::BrokenConfig(_) => Some(say(lang, "trouble.hint.config")),
            Trouble::NoConfig => Some(say(lang, "trouble.hint.no-config")),
            Trouble::EmptyCorpus => Some(say(lang, "trouble.hint.empty-corpus")),
            Trouble::Unreadable { path, source } => {
                let key = format!("trouble.hint.unreadable.{}", kind_of(source).unwrap_or("other"));
                Some(text(lang, &key, &[("path", &path.display())]))
            }
            Trouble::Output(_) => Some(say(lang, "trouble.hint.output")),
            Trouble::Input(_) => Some(say(lang, "trouble.hint.input")),
            Trouble::BadStore { .. } => Some(say(lang, "trouble.hint.bad-store")),
            Trouble::NoStore { .. } => Some(say(lang, "trouble.hint.store.missing")),
            Trouble::Store(error) | Trouble::Opening { error, .. } => {
                Some(say(lang, &format!("trouble.hint.store.{}", store_kind(error.trouble()))))
            }
            Trouble::Keys(error) => Some(keys_hint(error, lang)),
            Trouble::Engine(_) => Some(say(lang, "trouble.hint.store.other")),
            Trouble::NoJob { .. } | Trouble::NothingNamed { .. } => Some(say(lang, "trouble.hint.no-job")),
            Trouble::NoLetter { id, .. } => Some(text(lang, "trouble.hint.no-letter", &[("id", id)])),
            Trouble::NoLetters { .. } => Some(say(lang, "trouble.hint.no-letters")),
            Trouble::RecoveryRule { why, .. } => Some(rule_in_words(why, lang).2),
            Trouble::NothingRecorded { .. } => Some(say(lang, "trouble.hint.nothing-recorded")),
            Trouble::NothingMatches { .. } => Some(say(lang, "trouble.hint.nothing-matches")),
            Trouble::NoGroup { .. } => Some(say(lang, "trouble.hint.no-group")),
            Trouble::AmbiguousGroup { .. } => Some(say(lang, "trouble.hint.ambiguous-group")),
            Trouble::NoRun { .. } => Some(say(lang, "trouble.hint.no-run")),
            Trouble::NeedsYes { command, .. } => {
                Some(text(lang, "trouble.hint.needs-yes", &[("command", command)]))
            }
            Trouble::BadCall(_) => Some(say(lang, "trouble.hint.bad-call")),
            Trouble::NoCommand => Some(say(lang, "usage.see-help")),
            Trouble::NoDirectory => Some(say(lang, "trouble.hint.no-directory")),
            Trouble::TooLarge { .. } => Some(say(lang, "trouble.hint.too-large")),
            Trouble::BadPayload(_) => Some(say(lang, "trouble.hint.bad-payload")),
            Trouble::Exists { .. } => Some(say(lang, "trouble.hint.exists")),
            Trouble::Unwritable { .. } => Some(say(lang, "trouble.hint.unwritable")),
            Trouble::NoRuntime(_) => Some(say(lang, "trouble.hint.no-runtime")),
            Trouble::Filter(bad) => Some(filter::hint(&bad.error.problem, lang)),
            Trouble::Ambiguous { .. } => Some(say(lang, "trouble.hint.ambiguous")),
            Trouble::Review(_) => None,
            Trouble::Desk(trouble) => trouble.hint(lang),
            Trouble::Outbox(trouble) => trouble.hint(lang),
            Trouble::Alert(problem) => alert::hint(problem, lang),
            Trouble::Schedule(trouble) => trouble.hint(lang),
            Trouble::Push(trouble) => Some(trouble.hint(lang)),
            Trouble::Task(trouble) => Some(trouble.hint(lang)),
            Trouble::Proxy(trouble) => Some(trouble.hint(lang)),
            Trouble::Serve(trouble) => Some(trouble.hint(lang)),
            Trouble::Snapshot(error) => Some(snapshot::hint(error, lang)),
            Trouble::NoSnapshotPlace => Some(say(lang, "trouble.hint.snapshot.no-place")),
            Trouble::BadIdLine { .. } | Trouble::TooManyIds { .. } | Trouble::NoIds => {
                Some(say(lang, "trouble.hint.ids"))
            }
        }
    }
}

fn call_in_words(error: &BadCall, lang: Lang) -> String {
    let (key, what): (_, &dyn std::fmt::Display) = match error {
        BadCall::Method(method) => ("method", method),
        BadCall::Url(why) => ("url", why),
        BadCall::HeaderName(name) => ("header-name", name),
        BadCall::HeaderValue(name) => ("header-value", name),
        BadCall::NotYours(name) => ("not-yours", name),
        BadCall::Form(_) | BadCall::Base64(_) => ("other", error),
    };
    text(lang, &format!("trouble.call.{key}"), &[("what", what)])
}

/// The kinds of trouble that a store gives, as the last part of a key.
fn store_kind(trouble: &StoreTrouble) -> &'static str {
    match trouble {
        StoreTrouble::Missing(_) => "missing",
        StoreTrouble::Open { .. } => "open",
        StoreTrouble::BadAddress { .. } => "bad-address",
        StoreTrouble::Denied { .. } => "denied",
        StoreTrouble::Foreign(_) => "foreign",
        StoreTrouble::NewerSchema { .. } => "newer",
        StoreTrouble::OrphanedJournal(_) => "orphan",
        StoreTrouble::NetworkFilesystem { .. } => "network",
        StoreTrouble::Busy { .. } => "busy",
        StoreTrouble::Full => "full",
        StoreTrouble::ReadOnly(_) => "read-only",
        StoreTrouble::Corrupt(_) => "corrupt",
        StoreTrouble::Unreachable(_) => "unreachable",
        StoreTrouble::UnknownOutcome(_) => "unknown-outcome",
        StoreTrouble::Contended(_) => "contended",
        StoreTrouble::KeyMissing { given, .. } if given.is_empty() => "key-missing",
        StoreTrouble::KeyMissing { .. } => "key-unknown",
        StoreTrouble::WrongKey { .. } => "key-wrong",
        StoreTrouble::NoKey => "no-key",
        StoreTrouble::NotEncrypted(_) => "not-encrypted",
        StoreTrouble::Unsealable { .. } => "unsealable",
        StoreTrouble::Moved(_) => "moved",
        StoreTrouble::Moving => "moving",
        StoreTrouble::Arriving(_) => "arriving",
        StoreTrouble::Replaced => "replaced",
        StoreTrouble::NotEmpty(_) => "not-empty",
        StoreTrouble::StillRunning { .. } => "still-running",
        StoreTrouble::CopyDiffers(_) => "copy-differs",
        // The rest is rare, and says itself best.
        _ => "other",
    }
}

fn store_in_words(trouble: &StoreTrouble, lang: Lang) -> String {
    let key = format!("trouble.store.{}", store_kind(trouble));
    match trouble {
        StoreTrouble::Missing(path) | StoreTrouble::Foreign(path) | StoreTrouble::OrphanedJournal(path) => {
            text(lang, &key, &[("path", &path.display())])
        }
        StoreTrouble::Open { path, why } => text(lang, &key, &[("path", &path.display()), ("why", why)]),
        StoreTrouble::NewerSchema { path, found, known } => {
            text(lang, &key, &[("path", &path.display()), ("found", found), ("known", known)])
        }
        StoreTrouble::NetworkFilesystem { path, filesystem } => {
            text(lang, &key, &[("path", &path.display()), ("filesystem", filesystem)])
        }
        StoreTrouble::BadAddress { location, why } | StoreTrouble::Denied { location, why } => {
            text(lang, &key, &[("location", location), ("why", why)])
        }
        StoreTrouble::Moved(place) | StoreTrouble::Arriving(place) | StoreTrouble::NotEmpty(place) => {
            text(lang, &key, &[("place", place)])
        }
        StoreTrouble::StillRunning { leases, seconds } => {
            text(lang, &key, &[("n", leases), ("seconds", seconds)])
        }
        StoreTrouble::Busy { seconds } => text(lang, &key, &[("seconds", seconds)]),
        StoreTrouble::ReadOnly(why)
        | StoreTrouble::Corrupt(why)
        | StoreTrouble::Unreachable(why)
        | StoreTrouble::UnknownOutcome(why)
        | StoreTrouble::CopyDiffers(why)
        | StoreTrouble::Contended(why) => text(lang, &key, &[("why", why)]),
        StoreTrouble::KeyMissing { key: id, given } => {
            text(lang, &key, &[("key", id), ("given", &given.join(", "))])
        }
        StoreTrouble::NotEncrypted(id) | StoreTrouble::WrongKey { key: id } => {
            text(lang, &key, &[("key", id)])
        }
        StoreTrouble::Unsealable { cell, row } => text(lang, &key, &[("cell", cell), ("row", row)]),
        other => text(lang, &key, &[("why", other)]),
    }
}

/// Why keys cannot be used. The words of the store are in English and never hold a key.
fn keys_in_words(error: &KeyTrouble, lang: Lang) -> String {
    match error {
        KeyTrouble::Unreadable { path, why } => {
            text(lang, "trouble.keys.unreadable", &[("path", &path.display()), ("why", why)])
        }
        KeyTrouble::OpenToOthers { path, mode } => {
            let mode = format!("{mode:03o}");
            text(lang, "trouble.keys.open-to-others", &[("path", &path.display()), ("mode", &mode)])
        }
        KeyTrouble::Empty { from } => text(lang, "trouble.keys.empty", &[("from", from)]),
        KeyTrouble::Line { from, line, trouble } => {
            let what = match trouble {
                LineTrouble::NotTwoWords => say(lang, "trouble.keys.line.not-two-words"),
                LineTrouble::BadId => say(lang, "trouble.keys.line.bad-id"),
                LineTrouble::NotBase64 { key } => text(lang, "trouble.keys.line.not-base64", &[("key", key)]),
                LineTrouble::WrongLength { key, bytes } => {
                    text(lang, "trouble.keys.line.wrong-length", &[("key", key), ("bytes", bytes)])
                }
                LineTrouble::Twice { key } => text(lang, "trouble.keys.line.twice", &[("key", key)]),
                other => other.to_string(),
            };
            text(lang, "trouble.keys.line.at", &[("from", from), ("line", line), ("what", &what)])
        }
        other => text(lang, "trouble.keys.other", &[("why", other)]),
    }
}

fn keys_hint(error: &KeyTrouble, lang: Lang) -> String {
    match error {
        KeyTrouble::OpenToOthers { path, .. } => {
            text(lang, "trouble.hint.keys-mode", &[("path", &path.display())])
        }
        _ => say(lang, "trouble.hint.keys"),
    }
}

/// What the system said, in our words where it is common, else in its own.
fn system_error(error: &io::Error, lang: Lang) -> String {
    let own = match error.kind() {
        io::ErrorKind::StorageFull => Some("full"),
        _ => kind_of(error),
    };
    own.map_or_else(|| error.to_string(), |kind| say(lang, &format!("trouble.system.{kind}")))
}

/// The kinds of trouble that files usually give, as the last part of a key.
fn kind_of(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some("not-found"),
        io::ErrorKind::PermissionDenied => Some("denied"),
        io::ErrorKind::IsADirectory => Some("directory"),
        io::ErrorKind::FileTooLarge => Some("too-large"),
        _ => None,
    }
}
