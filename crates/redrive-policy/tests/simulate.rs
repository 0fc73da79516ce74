//! `simulate`, on recordings that `decide` itself has made: the same policy gives them back, and another one invents
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redrive_policy::simulate::{
    Basis, CameTo, Decided, Did, Ending, Fact, MAX_ATTEMPTS, Moment, RecordedAttempt, RecordedFailure,
    RecordedJob, Replayed, Ruling, Targets, World, recorded, replay,
};
use redrive_policy::{
    Cause, Failure, History, Jitter, Override, PRESETS, Policy, Rng, RuleId, Verdict, decide,
};

/// What an attempt of a script does, and what follows.
#[derive(Debug, Clone)]
enum Step {
    Succeeds,
    Fails { cause: Cause, verdict: Verdict, retry_after: Option<u64>, forced: bool, run_now: bool },
    WorkerDies,
    Snoozes(u64),
    Released,
    Cancelled,
}

/// An attempt: when it begins after it is due, how long it takes, how long until somebody acts, and what it does.
type Scripted = (u64, u64, u64, Step);

fn step() -> impl Strategy<Value = Step> {
    let fails = (
        prop::sample::select(Cause::ALL),
        prop::sample::select(Verdict::ALL),
        prop::option::weighted(0.2, 0..5_000_000u64),
        prop::bool::weighted(0.03),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(cause, verdict, retry_after, forced, run_now)| Step::Fails {
            cause,
            verdict,
            retry_after,
            forced,
            run_now,
        });
    prop_oneof![
        12 => fails,
        2 => Just(Step::WorkerDies),
        1 => (1..100_000u64).prop_map(Step::Snoozes),
        1 => Just(Step::Released),
        1 => Just(Step::Cancelled),
        2 => Just(Step::Succeeds),
    ]
}

fn script() -> impl Strategy<Value = Vec<Scripted>> {
    prop::collection::vec((0..3_000u64, 0..20_000u64, 0..500_000u64, step()), 1..14)
}

fn policy() -> impl Strategy<Value = Policy> {
    let jitter =
        prop::option::of(prop::sample::select(vec![Jitter::None, Jitter::Full, Jitter::Decorrelated]));
    (prop::sample::select(PRESETS), prop::option::of(0..8u32), prop::option::of(1..90_000u64), jitter)
        .prop_map(|(preset, max_retries, initial, jitter)| {
            let initial = initial.map(Duration::from_millis);
            Policy::preset(preset).unwrap_or_else(Policy::standard).with_override(&Override {
                max_retries,
                initial,
                jitter,
                ..Override::default()
            })
        })
}

/// Runs a script as the engine would: classify has spoken, `decide` decides, a retry past the deadline is not made.
fn record(policy: &Policy, script: &[Scripted], deadline: Option<i64>, seed: u64) -> RecordedJob {
    let version: Arc<str> = policy.version().into();
    let deadline_at = deadline.map(Moment);
    let millis = |millis: &u64| Duration::from_millis(*millis);
    let mut rng = Rng::seeded(seed);
    let mut history = History::default();
    let mut targets = Targets::default();
    let target = targets.add();
    let mut job = RecordedJob { number: seed, target, deadline_at, attempts: Vec::new(), facts: Vec::new() };
    let (mut due_at, mut run) = (Moment(0), 0);
    for (lag, took, later, step) in script {
        let started_at = due_at.after(millis(lag));
        let ended_at = started_at.after(millis(took));
        let number = job.attempts.len() + 1;
        let mut did = |what| {
            let at = ended_at.after(millis(later));
            job.facts.push(Fact { at, attempts_before: number, what });
            at
        };
        let mut over = false;
        let attempt = |came_to| RecordedAttempt { due_at, started_at, ended_at, run, came_to };
        let (failure, forced, run_now) = match step {
            Step::Succeeds | Step::Cancelled => {
                let done = matches!(step, Step::Succeeds);
                job.attempts.push(attempt(if done { CameTo::Succeeded } else { CameTo::Cancelled }));
                return job;
            }
            Step::Snoozes(wait) => {
                let until = ended_at.after(millis(wait));
                job.attempts.push(attempt(CameTo::Snoozed { until }));
                (due_at, history.previous_delay) = (until, None);
                continue;
            }
            Step::Released => {
                job.attempts.push(attempt(CameTo::Released));
                (due_at, history.previous_delay) = (ended_at, None);
                continue;
            }
            Step::WorkerDies => (Failure::worker_died(), false, false),
            Step::Fails { cause, verdict, retry_after, forced, run_now } => {
                let failure = Failure {
                    verdict: *verdict,
                    rule: RuleId::built_in("scripted"),
                    retry_after: retry_after.as_ref().map(millis),
                    ..Failure::of(*cause)
                };
                (failure, *forced, *run_now)
            }
        };
        let decision = decide(policy, &failure, &history, &mut rng);
        // The decision is made a moment before it is written down.
        let decided_at = Moment(ended_at.0 - i64::try_from(took % 3).unwrap_or(0));
        let retry = decision.delay().filter(|_| !forced).map(|delay| (delay, decided_at.after(delay)));
        let decided = match retry {
            Some((delay, due_at)) if deadline_at.is_none_or(|deadline| due_at < deadline) => {
                history.record(&decision);
                Decided::Retry { delay, due_at }
            }
            _ => Decided::SetAside,
        };
        let now = attempt(CameTo::Failed(RecordedFailure {
            failure: Arc::new(failure),
            forced,
            decided,
            policy_version: version.clone(),
        }));
        match decided {
            Decided::Retry { due_at: due, .. } if run_now && due > ended_at.after(millis(later)) => {
                due_at = did(Did::RanNow);
                history.previous_delay = None;
            }
            Decided::Retry { due_at: due, .. } => due_at = due,
            Decided::SetAside if later % 2 == 0 => {
                due_at = did(Did::PutBack);
                (history, run) = (History::default(), run + 1);
            }
            Decided::SetAside => {
                if later % 5 == 0 {
                    did(Did::Cancelled);
                }
                over = true;
            }
        }
        job.attempts.push(now);
        if over {
            break;
        }
    }
    job
}

/// Every attempt that says something of the target, observed.
fn seen(jobs: &[RecordedJob]) -> Targets {
    let mut targets = Targets::default();
    for job in jobs {
        let target = targets.add();
        for attempt in &job.attempts {
            let answered = match &attempt.came_to {
                CameTo::Succeeded => true,
                CameTo::Failed(_) => false,
                _ => continue,
            };
            targets.observe(target, attempt.started_at, attempt.ended_at.since(attempt.started_at), answered);
        }
    }
    targets.finish();
    targets
}

const FOR_EVER: Moment = Moment(i64::MAX);

fn under(policy: &Policy, version: &str, job: &RecordedJob, seed: u64) -> Replayed {
    let targets = seen(std::slice::from_ref(job));
    let ruling = Ruling { policy, version, today: None };
    replay(job, &ruling, &World { targets: &targets, ends_at: FOR_EVER }, seed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// R-P4, issue 5, item 5: the same policy reproduces what was recorded, exactly: times, delays, decisions, ending. And the
    /// policy explains every decision of the record: it was really asked again.
    #[test]
    fn the_same_policy_gives_the_record_back(
        policy in policy(), script in script(), deadline in prop::option::weighted(0.3, 0..2_000_000i64), seed: u64,
    ) {
        let job = record(&policy, &script, deadline, seed);
        let replayed = under(&policy, &policy.version(), &job, seed ^ 1);
        prop_assert_eq!(&replayed, &recorded(&job));
        prop_assert!(replayed.is_observed());
    }

    /// Issue 5, item 5: without chance it needs no recorded delay for that. Nothing of the record's decisions is used.
    #[test]
    fn without_chance_the_record_is_decided_again(
        policy in policy(), script in script(), deadline in prop::option::weighted(0.3, 0..2_000_000i64), seed: u64,
    ) {
        let policy = policy.with_override(&Override { jitter: Some(Jitter::None), ..Override::default() });
        let job = record(&policy, &script, deadline, seed);
        prop_assert_eq!(under(&policy, "another", &job, seed ^ 1), recorded(&job));
    }

    /// Issue 5, item 5: whatever the other policy is: what is called observed happened, time goes forwards, one seed
    /// gives one answer, and a job without estimates ends for sure.
    #[test]
    fn another_policy_invents_nothing(
        policy in policy(), other in policy(), script in script(),
        deadline in prop::option::weighted(0.3, 0..2_000_000i64), seed: u64,
    ) {
        let job = record(&policy, &script, deadline, seed);
        let version = other.version();
        prop_assume!(version != policy.version());
        let replayed = under(&other, &version, &job, seed);
        prop_assert_eq!(&replayed, &under(&other, &version, &job, seed));
        prop_assert!(replayed.attempts.len() <= MAX_ATTEMPTS);
        for attempt in &replayed.attempts {
            let happened = job.attempts.iter().any(|one| {
                one.started_at == attempt.started_at && one.ended_at == attempt.ended_at
            });
            prop_assert!(happened || attempt.basis != Basis::Observed, "{:?}", attempt);
            let late = job.deadline_at.is_some_and(|deadline| attempt.started_at >= deadline);
            prop_assert!(!late || attempt.basis == Basis::Observed || !job.facts.is_empty(), "{:?}", attempt);
        }
        let in_order = replayed.attempts.windows(2).all(|pair| pair[0].ended_at <= pair[1].started_at.after(Duration::from_millis(3)));
        prop_assert!(in_order, "{:?}", replayed.attempts);
        if replayed.is_observed() {
            prop_assert!(replayed.ending != Ending::Unknown);
        }
    }

    /// Issue 5, item 5: a policy that only allows more retries keeps every recorded attempt, chance included.
    #[test]
    fn more_retries_keep_what_was_drawn(policy in policy(), script in script(), seed: u64) {
        // Nobody puts it back: with more retries there would be no letter to put back.
        let script: Vec<Scripted> =
            script.into_iter().map(|(lag, took, _, step)| (lag, took, 1, step)).collect();
        let job = record(&policy, &script, None, seed);
        let more = policy.with_max_retries(u32::MAX);
        let (version, today) = (more.version(), policy.version());
        prop_assume!(version != today);
        let targets = seen(std::slice::from_ref(&job));
        let ruling = Ruling { policy: &more, version: &version, today: Some((&policy, &today)) };
        let replayed = replay(&job, &ruling, &World { targets: &targets, ends_at: FOR_EVER }, seed);
        let before = recorded(&job).attempts;
        prop_assert!(replayed.attempts.len() >= before.len());
        for (after, before) in replayed.attempts.iter().zip(&before) {
            prop_assert_eq!((after.started_at, after.basis), (before.started_at, Basis::Observed));
        }
    }
}
