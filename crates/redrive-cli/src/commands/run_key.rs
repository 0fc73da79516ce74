//! `run --idempotency-key K`: the same command line under one key is run once (design.md §5).
//!
//! The key is taken before the job is stored, and held while the command runs; the job carries the key's id as its caller id, so that
//! it is found again by whoever comes later. A run that finished is answered from the key's record. One whose process died is
//! answered from its job: the job knows whether it waits, runs, is done, or was set aside. What even the job does not know, a
//! person decides; nothing is ever run a second time by itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::Engine;
use redrive::review::Captured;
use redrive::{Relay, Wiring, redact};
use redrive_policy::idempotency::{DEFAULT_KEEP_FOR, DEFAULT_MAX_RESPONSE};
use redrive_policy::{Cause, one_line};
use redrive_store::{
    Claimed, Event, EventFilter, EventStatus, Finish, JobRecord, JobState, KeyClaim, KeyCounts, KeyHold,
    KeyQuery, KeyRecord, Store, StoreError, StoredResponse, Timestamp,
};

use super::opened::Opened;
use super::told::{End, Told};
use crate::args::RunArgs;
use crate::escape::beginning;
use crate::run_answer::{PRINCIPAL, RunAnswer, Written};
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::idempotency::key_id;
use crate::view::moment::ago;
use crate::{Exit, Stage};

/// How long this process may be silent; as long as its jobs are kept for it.
const HOLD_FOR: Duration = Duration::from_secs(10);
/// How often it is heard of.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(3);
/// How much of each stream is kept.
const KEPT_BYTES: usize = DEFAULT_MAX_RESPONSE;
/// It is being run elsewhere: come again later, as sysexits.h has it.
const COME_LATER: u8 = 75;
/// Nobody knows how it ended, so nothing was run.
const OUR_FAULT: u8 = 125;
/// Nobody reads any more: 128 and SIGPIPE.
const UNREAD: u8 = 141;
/// The codes of a command that did not begin.
const NOT_BEGUN: [i32; 2] = [126, 127];
/// What is shown of a command's name.
const NAME_CHARS: usize = 60;
/// Clocks of two processes differ; keys are remembered for much longer than this.
const SLACK: Duration = Duration::from_mins(1);
/// How many events of a key are looked at for its job.
const EVENTS: u32 = 100;

/// What the key says.
pub(super) enum Entered {
    /// It is ours: run the command.
    Held(Held),
    /// Nothing is to be run; this is the end.
    Over(Exit),
}

/// A key that we hold while its command runs.
pub(super) struct Held {
    store: Arc<dyn Store>,
    hold: KeyHold,
    stdout: Captured,
    stderr: Captured,
}

/// What becomes of the key when the run is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// The run finished, whatever its exit code: that is the answer from now on.
    Complete,
    /// Nothing was done, or it was stopped on purpose: the next one runs it anew.
    Release,
    /// Ask the job.
    GiveUp(&'static str),
}

impl Fate {
    /// What the last attempt and the signal that we heard make of it, in the order in which they make the exit code.
    pub(super) fn of(last: Option<&Told>, signal: Option<i32>) -> Fate {
        match last.map(|told| &told.end) {
            Some(End::Succeeded { .. }) => Fate::Complete,
            Some(End::Dead { failed, .. }) => match failed.exit_code {
                // A command that is not there has done nothing.
                Some(code) if NOT_BEGUN.contains(&code) => Fate::Release,
                Some(_) => Fate::Complete,
                None if matches!(failed.cause, Cause::Timeout | Cause::Incomplete | Cause::Quality) => {
                    Fate::Complete
                }
                None => Fate::GiveUp("the command did not begin, or redrive failed"),
            },
            // Nobody asked for a stop: whoever read its output went away, and what it had done by then is done.
            Some(End::Cancelled { exit_code: Some(code) }) if *code == i32::from(UNREAD) => Fate::Complete,
            Some(End::Cancelled { .. }) => Fate::Release,
            _ if signal.is_some() => Fate::Release,
            _ => Fate::GiveUp("another worker took it over"),
        }
    }
}

/// Takes the key, or tells what is known of it.
pub(super) fn enter(
    key: &str,
    args: &RunArgs,
    engine: &Engine,
    opened: &Opened,
    stage: &mut Stage<'_>,
) -> Result<Entered, Trouble> {
    let now = engine.now();
    let claim = KeyClaim {
        principal: PRINCIPAL.to_owned(),
        key: key.to_owned(),
        endpoint: endpoint(args),
        request_hash: hash(&args.command),
        hold_for: HOLD_FOR,
        keep_for: DEFAULT_KEEP_FOR,
        rerun: false,
        job: None,
    };
    let claimed = opened.wait(opened.store.claim_key(now, claim))?;
    let mut counts = KeyCounts { guarded: 1, keyed: 1, ..KeyCounts::default() };
    let known = Known { key, now, opened };
    let entered = match claimed {
        Claimed::Taken { hold, .. } => {
            counts.taken = 1;
            Entered::Held(Held {
                store: Arc::clone(&opened.store),
                hold,
                stdout: Captured::with_bound(KEPT_BYTES),
                stderr: Captured::with_bound(KEPT_BYTES),
            })
        }
        Claimed::Completed { response, completed_at, .. } => {
            counts.replayed = 1;
            Entered::Over(known.replay(&response, completed_at, stage)?)
        }
        Claimed::InFlight { since, .. } => {
            counts.in_flight = 1;
            Entered::Over(known.in_flight(since, stage)?)
        }
        Claimed::Mismatch { endpoint } => {
            counts.mismatched = 1;
            Entered::Over(known.mismatch(&endpoint, stage)?)
        }
        Claimed::Unknown { since, .. } => Entered::Over(known.ask_the_job(since, &mut counts, stage)?),
    };
    opened.wait(opened.store.count_keys(now, counts))?;
    Ok(entered)
}

impl Held {
    /// What the job is found by: the key's own id, as its events have it.
    pub(super) fn caller_id(&self) -> String {
        key_id(self.hold.record)
    }

    /// Our stdin, stdout and stderr; what is written is kept as well.
    pub(super) fn wiring(&self) -> impl Fn(Relay) -> Wiring + Send + Sync + 'static {
        let (stdout, stderr) = (self.stdout.clone(), self.stderr.clone());
        move |relay| {
            let through = Wiring::passed_through(relay);
            Wiring {
                stdout: Some(stdout.writer(through.stdout)),
                stderr: Some(stderr.writer(through.stderr)),
                ..through
            }
        }
    }

    /// We are still here. A key that was reset meanwhile is told of at the end.
    pub(super) async fn renew(&self, now: Timestamp) -> Result<(), StoreError> {
        self.store.renew_key(now, self.hold, HOLD_FOR).await.map(|_| ())
    }

    /// Ends what `fate` says. The command has run: whatever goes wrong here is told, and changes nothing about its code.
    pub(super) fn end(self, fate: &Fate, code: u8, engine: &Engine, opened: &Opened, stage: &mut Stage<'_>) {
        let now = engine.now();
        let of = |captured: &Captured| {
            let (kept, written) = captured.take();
            Written { kept, written }
        };
        let ended = match fate {
            Fate::Complete => {
                let answer = RunAnswer { code, stdout: of(&self.stdout), stderr: of(&self.stderr) };
                self.store.complete_key(now, self.hold, answer.to_stored(), DEFAULT_KEEP_FOR)
            }
            Fate::Release => self.store.release_key(now, self.hold, None),
            Fate::GiveUp(why) => self.store.give_up_key(now, self.hold, (*why).to_owned(), DEFAULT_KEEP_FOR),
        };
        let lang = stage.settings.lang;
        match opened.wait(ended) {
            Ok(Finish::Done) => {}
            Ok(Finish::Lost) => {
                stage.talk.warning(&text(lang, "run.key.lost", &[("id", &key_id(self.hold.record))]));
            }
            Err(trouble) => stage.talk.trouble(&trouble),
        }
    }
}

/// A key that is not ours to use, and what is known of it.
struct Known<'a> {
    key: &'a str,
    now: Timestamp,
    opened: &'a Opened,
}

impl Known<'_> {
    fn record(&self) -> Result<Option<KeyRecord>, Trouble> {
        record(self.key, self.opened)
    }

    /// The stored output and the stored code.
    fn replay(
        &self,
        response: &StoredResponse,
        completed_at: Timestamp,
        stage: &mut Stage<'_>,
    ) -> Result<Exit, Trouble> {
        let Some(answer) = RunAnswer::of_stored(response) else {
            stage.talk.error(&text(stage.settings.lang, "run.key.no-answer", &[("key", &self.key)]));
            return Ok(Exit::Command(OUR_FAULT));
        };
        if answer.code != 0
            && let Some(exit) = self.mended(stage)?
        {
            return Ok(exit);
        }
        if written_again(&answer.stdout.kept, &answer.stderr.kept, stage)? == Reader::Gone {
            return Ok(Exit::Command(UNREAD));
        }
        let lang = stage.settings.lang;
        let when = ago(completed_at, self.now, lang);
        stage.talk.narrate(&text(lang, "run.key.replayed", &[("key", &self.key), ("when", &when)]));
        for (stream, written) in [("stdout", &answer.stdout), ("stderr", &answer.stderr)] {
            if written.is_cut() {
                let values: [(&str, &dyn std::fmt::Display); 3] =
                    [("stream", &stream), ("kept", &written.kept.len()), ("written", &written.written)];
                stage.talk.narrate(&text(lang, "run.key.cut", &values));
            }
        }
        Ok(Exit::Command(answer.code))
    }

    /// What failed may have been put back since, and then its job knows better: it succeeded, or is on its way.
    fn mended(&self, stage: &mut Stage<'_>) -> Result<Option<Exit>, Trouble> {
        let Some(job) = self.record()?.map(|record| job_of(&record, self.opened)).transpose()?.flatten()
        else {
            return Ok(None);
        };
        match job.state {
            JobState::Dead(_) => Ok(None),
            JobState::Ready { .. } | JobState::Leased { .. } => Ok(Some(self.waiting(&job, stage))),
            JobState::Ended => {
                let story = self.opened.story(&job)?;
                match story.iter().rev().find(|event| event.status == EventStatus::Success) {
                    Some(last) if last.event_type == "attempt_succeeded" => {
                        self.left_by_the_job(&job, last, stage).map(Some)
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    fn waiting(&self, job: &JobRecord, stage: &mut Stage<'_>) -> Exit {
        let lang = stage.settings.lang;
        stage.talk.error(&text(lang, "run.key.waiting", &[("key", &self.key), ("job", &job.id)]));
        stage.talk.hint(&text(lang, "run.key.waiting-hint", &[("job", &job.id)]));
        Exit::Command(COME_LATER)
    }

    fn in_flight(&self, since: Timestamp, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
        let job = self.record()?.map(|record| job_of(&record, self.opened)).transpose()?.flatten();
        let lang = stage.settings.lang;
        let when = ago(since, self.now, lang);
        let said = match job {
            Some(job) => {
                text(lang, "run.key.in-flight", &[("key", &self.key), ("job", &job.id), ("when", &when)])
            }
            None => text(lang, "run.key.in-flight-soon", &[("key", &self.key), ("when", &when)]),
        };
        stage.talk.error(&said);
        Ok(Exit::Command(COME_LATER))
    }

    fn mismatch(&self, endpoint: &str, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
        let lang = stage.settings.lang;
        let record = self.record()?;
        let when = record.as_ref().map(|record| ago(record.created_at, self.now, lang)).unwrap_or_default();
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("key", &self.key), ("endpoint", &endpoint), ("when", &when)];
        stage.talk.error(&text(lang, "run.key.mismatch", &values));
        if let Some(record) = record {
            stage.talk.hint(&text(lang, "run.key.mismatch-hint", &[("id", &key_id(record.id))]));
        }
        Ok(Exit::Usage)
    }

    /// The process that ran it is gone; its job may know more.
    fn ask_the_job(
        &self,
        since: Timestamp,
        counts: &mut KeyCounts,
        stage: &mut Stage<'_>,
    ) -> Result<Exit, Trouble> {
        let lang = stage.settings.lang;
        let Some(record) = self.record()? else {
            // Somebody has reset it between two questions: the next one runs it.
            stage.talk.error(&text(lang, "run.key.gone", &[("key", &self.key)]));
            return Ok(Exit::Command(COME_LATER));
        };
        let id = key_id(record.id);
        let Some(job) = job_of(&record, self.opened)? else {
            counts.unknown = 1;
            let when = ago(since, self.now, lang);
            stage.talk.error(&text(lang, "run.key.unknown", &[("key", &self.key), ("when", &when)]));
            stage.talk.hint(&text(lang, "run.key.unknown-hint", &[("id", &id)]));
            return Ok(Exit::Command(OUR_FAULT));
        };
        match job.state {
            JobState::Ready { .. } | JobState::Leased { .. } => {
                counts.in_flight = 1;
                Ok(self.waiting(&job, stage))
            }
            JobState::Dead(_) | JobState::Ended => {
                let story = self.opened.story(&job)?;
                let last = story.iter().rev().find(|event| {
                    matches!(
                        event.status,
                        EventStatus::Success | EventStatus::Failed | EventStatus::DeadLetter
                    )
                });
                match last {
                    Some(last) if last.status != EventStatus::Failed => {
                        counts.replayed = 1;
                        self.left_by_the_job(&job, last, stage)
                    }
                    // Cancelled, or its story is no longer kept.
                    _ => {
                        counts.unknown = 1;
                        stage.talk.error(&text(
                            lang,
                            "run.key.cancelled",
                            &[("key", &self.key), ("job", &job.id)],
                        ));
                        stage.talk.hint(&text(lang, "run.key.unknown-hint", &[("id", &id)]));
                        Ok(Exit::Command(OUR_FAULT))
                    }
                }
            }
        }
    }

    /// What a worker left of it: the end of its output, and its code.
    fn left_by_the_job(&self, job: &JobRecord, last: &Event, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
        let lang = stage.settings.lang;
        let said = |stream: &str| last.data["output"][stream].as_str().unwrap_or_default().as_bytes();
        if written_again(said("stdout"), said("stderr"), stage)? == Reader::Gone {
            return Ok(Exit::Command(UNREAD));
        }
        if last.data["cause"] == Cause::Crashed.name() {
            let values: [(&str, &dyn std::fmt::Display); 2] = [("key", &self.key), ("job", &job.id)];
            stage.talk.error(&text(lang, "run.key.crashed", &values));
            stage.talk.hint(&text(lang, "run.key.crashed-hint", &[("job", &job.id)]));
            return Ok(Exit::Command(OUR_FAULT));
        }
        let succeeded = last.status == EventStatus::Success;
        let code = super::run::code(last.exit_code, u8::from(!succeeded));
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("key", &self.key), ("job", &job.id), ("code", &code)];
        if succeeded {
            stage.talk.narrate(&text(lang, "run.key.finished", &values));
        } else {
            stage.talk.error(&text(lang, "run.key.dead", &values));
            stage.talk.hint(&text(lang, "run.key.dead-hint", &[("job", &job.id)]));
        }
        Ok(Exit::Command(code))
    }
}

/// Whether somebody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Writes what a command wrote, as it wrote it. A reader that has gone ends this as it would have ended the command.
fn written_again(stdout: &[u8], stderr: &[u8], stage: &mut Stage<'_>) -> Result<Reader, Trouble> {
    match stage.stdout.write_all(stdout).and_then(|()| stage.stdout.flush()) {
        Ok(()) => {
            stage.talk.raw(stderr);
            Ok(Reader::There)
        }
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Trouble::Output(error)),
    }
}

fn record(key: &str, opened: &Opened) -> Result<Option<KeyRecord>, Trouble> {
    let query = KeyQuery {
        key: Some(key.to_owned()),
        principal: Some(PRINCIPAL.to_owned()),
        limit: 1,
        ..KeyQuery::default()
    };
    Ok(opened.wait(opened.store.keys(query))?.pop())
}

/// The job of a command under a key: the newest that carries the key's id, unless it is older than the key.
pub(super) fn job_of(record: &KeyRecord, opened: &Opened) -> Result<Option<JobRecord>, Trouble> {
    if record.principal != PRINCIPAL {
        return Ok(None);
    }
    let filter = EventFilter {
        caller_id: Some(key_id(record.id)),
        since: Some(record.created_at.before(SLACK)),
        ..EventFilter::default()
    };
    let events = opened.wait(opened.store.events(filter, EVENTS))?;
    match events.iter().find_map(|event| event.job) {
        Some(job) => opened.wait(opened.store.job(job)),
        None => Ok(None),
    }
}

/// What people are told that a key was used for. Arguments may hold secrets, so only the program is named.
fn endpoint(args: &RunArgs) -> String {
    let program = args.command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let name = args.name.clone().unwrap_or_else(|| program.to_string_lossy().into_owned());
    format!("run {}", beginning(&one_line(&redact(&name)), NAME_CHARS))
}

/// The command line to the byte; where one argument ends is a part of it.
fn hash(command: &[OsString]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in command {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// design.md §5: the same command line has the same hash, and no other has it.
    #[test]
    fn command_lines_are_told_apart() {
        let words = |words: &[&str]| hash(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(words(&["a", "b"]), words(&["a", "b"]));
        for other in [&["a", "b", ""][..], &["ab"], &["a b"], &["b", "a"], &["a"]] {
            assert_ne!(words(&["a", "b"]), words(other), "{other:?}");
        }
    }
}
