//! From a failure to the way its attempt ends, and from there through the store's one door.
//!
//! Workers, the reaper, batches and in-process retries all come here with a [`Failing`]; the policy decides, and what is
//! written down — redacted, bounded, in both languages — says why.

use std::time::Duration;

use redrive_policy::{
    Cause, Decision, DecisionKind, DecisionRecord, Failure, History, KnownSecrets, Lang, TEXT_BOUND, Verdict,
    decide, fingerprint, round_to_millis,
};
use redrive_store::{
    DecidedOn, Ending, FailedAttempt, LeasedJob, LetterReason, Output, Settled, Settlement, StoreError,
    StoredDecision, Timestamp, WorkerId,
};

use super::Engine;
use super::dead_letter::{letter, reason_of};
use super::policies::Named;
use crate::bounded::both_ends;
use crate::outcome::Evidence;
use crate::secrets::{redact, redact_knowing};

/// How many bytes of an error's words are stored.
const MESSAGE_BOUND: usize = 4 * 1024;
/// How many bytes of a hint are stored.
const HINT_BOUND: usize = 8 * 1024;
/// How long a settlement that could not be written is waited for at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// An attempt that failed: what it was found to be, and what is known beside.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    pub(super) failure: Failure,
    /// As it came: [`ending_of`] blanks what is secret in it.
    pub(super) evidence: Evidence,
    pub(super) exit_code: Option<i32>,
    pub(super) output: Output,
    pub(super) latency: Option<Duration>,
    /// Where it came from, if it is known.
    pub(super) stack: Option<String>,
    /// Set aside for this reason, whatever the policy would say.
    pub(super) forced: Option<LetterReason>,
    /// The policy was asked already.
    pub(super) decided: Option<Decision>,
}

impl Failing {
    pub(super) fn new(failure: Failure, evidence: &Evidence) -> Failing {
        Failing {
            failure,
            evidence: evidence.clone(),
            exit_code: None,
            output: Output::default(),
            latency: None,
            stack: None,
            forced: None,
            decided: None,
        }
    }

    /// The same without secrets: here everything passes that is told about an attempt that failed, and here it is known what its
    /// job was given.
    fn redacted(mut self, known: &KnownSecrets) -> Failing {
        self.evidence = self.evidence.redacted_knowing(known);
        // The hint for the next attempt is made of the details.
        self.failure.details.clone_from(&self.evidence.details);
        self.output = redacted_output(self.output, known);
        self.stack =
            self.stack.map(|stack| both_ends(&redact_knowing(known, &stack), TEXT_BOUND).into_owned());
        self
    }
}

/// What an attempt wrote, without what its job was given.
pub(super) fn redacted_output(output: Output, known: &KnownSecrets) -> Output {
    let masked = |text: Option<String>| text.map(|text| redact_knowing(known, &text));
    Output { stdout: masked(output.stdout), stderr: masked(output.stderr) }
}

/// An attempt that failed in this way, classified.
pub(super) fn classified(engine: &Engine, evidence: &Evidence) -> Failing {
    Failing::new(engine.classifier().classify(&evidence.report()), evidence)
}

/// An attempt whose handler wants the job set aside, for this reason.
pub(super) fn set_aside(engine: &Engine, why: &str) -> Failing {
    let evidence = Evidence {
        said: Some((Cause::HumanJudgment, Verdict::No)),
        error_type: "DeadLetterRequested".to_owned(),
        message: why.to_owned(),
        ..Evidence::default()
    };
    Failing { forced: Some(LetterReason::Requested), ..classified(engine, &evidence) }
}

/// How an attempt that failed ends: classify has spoken, the policy decides, a retry past the deadline is not made.
pub(super) async fn ending_of(
    engine: &Engine,
    leased: &LeasedJob,
    failing: Failing,
    held_for: Option<WorkerId>,
) -> Ending {
    let named = engine.policies().of_job(&leased.job);
    let known = KnownSecrets::of_payload(&leased.job.payload);
    let failing = failing.redacted(&known);
    let decision = failing.decided.clone().unwrap_or_else(|| {
        let history = History {
            retry_count: leased.retries,
            crash_count: leased.crashes,
            previous_delay: leased.last_delay,
        };
        decide(&named.policy, &failing.failure, &history, &mut engine.rng())
    });
    let decided_on = decided_on(leased, &failing);
    let now = engine.now();
    let forced = failing.forced.or_else(|| {
        let due = now.after(decision.delay()?);
        leased.job.deadline_at.is_some_and(|deadline| due >= deadline).then_some(LetterReason::Deadline)
    });
    let reason = match (forced, decision.delay()) {
        (None, Some(delay)) => {
            let hint = decision.modification_hint(engine.0.lang);
            let hint = hint.as_deref().map(|hint| stored_hint(&known, hint));
            let failure = Box::new(failed_attempt(failing, &decision, &named, decided_on, None, &known));
            return Ending::Retry { run_at: now.after(delay), delay, held_for, hint, failure };
        }
        (Some(forced), _) => forced,
        (None, None) => reason_of(&decision),
    };
    let failed = failed_attempt(failing, &decision, &named, decided_on, forced, &known);
    let letter = letter(engine, leased, &decision, &failed, reason, now).await;
    Ending::Dead { failure: Box::new(failed), letter: Box::new(letter) }
}

fn failed_attempt(
    failing: Failing,
    decision: &Decision,
    named: &Named,
    decided_on: DecidedOn,
    forced: Option<LetterReason>,
    known: &KnownSecrets,
) -> FailedAttempt {
    let Failing { failure, mut evidence, exit_code, output, latency, stack, .. } = failing;
    if evidence.message.trim().is_empty() {
        evidence.message = evidence.signals();
    }
    FailedAttempt {
        cause: failure.cause,
        retryable: failure.is_retryable(),
        rule: failure.rule.as_str().to_owned(),
        fingerprint: fingerprint(&failure, &evidence.message),
        error_type: short_type(&evidence.error_type).to_owned(),
        error_message: both_ends(&evidence.message, MESSAGE_BOUND).into_owned(),
        stack_trace: stack,
        http_status: failure.http_status,
        code: failure.code.map(|code| redact_knowing(known, code.as_str())),
        latency,
        exit_code,
        output,
        decision: StoredDecision {
            record: record(decision, Lang::En, forced, known),
            policy_version: named.version.to_string(),
            rule: Some(failure.rule.as_str().to_owned()),
            ja: record(decision, Lang::Ja, forced, known),
        },
        charged_to_crashes: failure.cause == Cause::Crashed,
        decided_on,
    }
}

/// What is written down so that another policy can be asked about the same failure.
fn decided_on(leased: &LeasedJob, failing: &Failing) -> DecidedOn {
    let failure = &failing.failure;
    DecidedOn {
        verdict: Some(failure.verdict).filter(|verdict| *verdict != Verdict::Unsaid),
        retry_after_ms: failure.retry_after.map(round_to_millis),
        worker_died: failure.worker_died,
        forced: failing.forced,
        deadline_at: leased.job.deadline_at,
        overrides: leased.job.overrides.clone(),
    }
}

/// The decision as it is written down. A reason that beats the policy is told in its place.
fn record(
    decision: &Decision,
    lang: Lang,
    forced: Option<LetterReason>,
    known: &KnownSecrets,
) -> DecisionRecord {
    let mut record = decision.record(lang);
    record.modification_hint = record.modification_hint.as_deref().map(|hint| stored_hint(known, hint));
    let why = match (forced, lang) {
        (Some(LetterReason::Deadline), Lang::En) => "The deadline leaves no time for another attempt.",
        (Some(LetterReason::Deadline), Lang::Ja) => "期限までに次の試行を行う時間がありません。",
        (Some(LetterReason::Requested), Lang::En) => "The handler set it aside.",
        (Some(LetterReason::Requested), Lang::Ja) => "ハンドラーがデッドレターに移しました。",
        (Some(LetterReason::Crashed), Lang::En) => {
            "The process that ran it is gone, and nobody else can run it."
        }
        (Some(LetterReason::Crashed), Lang::Ja) => "実行していたプロセスが終了し、他では実行できません。",
        _ => return record,
    };
    DecisionRecord {
        decision: DecisionKind::Escalate,
        delay_ms: None,
        modification_hint: None,
        strategy: None,
        escalate_reason: Some(why.to_owned()),
        reasoning: why.to_owned(),
        ..record
    }
}

/// `reqwest::error::Error` is an `Error` to people; what is generic keeps its own name only.
fn short_type(name: &str) -> &str {
    let bare = name.split('<').next().unwrap_or(name).trim_start_matches(['&', ' ']);
    bare.rsplit("::").next().filter(|short| !short.is_empty()).unwrap_or(name)
}

impl Engine {
    /// Ends attempts through the one door. Trouble that may pass is waited out: the work has been done, and forgetting
    /// it would do it twice. A lease that is lost meanwhile is answered as stale.
    pub(super) async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let mut wait = FIRST_WAIT;
        let mut in_doubt = false;
        loop {
            let error = match self.0.store.settle(self.now(), settlements.clone()).await {
                Ok(settled) => {
                    self.tell_letters(&settlements, &settled, in_doubt).await;
                    self.observe_settled(&settlements, &settled).await;
                    return Ok(settled);
                }
                // Settled twice is settled once: the second time finds no lease.
                Err(error) if error.may_pass() || error.outcome_is_unknown() => error,
                Err(error) => return Err(error),
            };
            in_doubt |= error.outcome_is_unknown();
            tracing::warn!(%error, count = settlements.len(), "settling waits for the store");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// A hint as it may be stored: a retry in process decides on what was really said.
fn stored_hint(known: &KnownSecrets, hint: &str) -> String {
    both_ends(&redact_knowing(known, hint), HINT_BOUND).into_owned()
}

/// Why somebody ended a job, as it may be stored.
pub(super) fn bounded_why(why: &str) -> String {
    both_ends(&redact(why), MESSAGE_BOUND).into_owned()
}

/// When a thing that ended so is due again.
pub(super) fn next_run(ending: &Ending) -> Option<Timestamp> {
    match ending {
        Ending::Retry { run_at, .. } | Ending::Snoozed { run_at, .. } | Ending::Parked { run_at, .. } => {
            Some(*run_at)
        }
        Ending::Succeeded { .. }
        | Ending::Dead { .. }
        | Ending::Cancelled { .. }
        | Ending::Released { .. } => None,
    }
}
