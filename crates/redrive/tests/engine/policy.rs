//! A waiting job uses the current policy of its name, and what it overrides; each decision says which version decided.

use std::time::Duration;

use redrive::{Cause, Fail, Lang, Override, Policy, fail};
use redrive_policy::{Config, Format};
use redrive_store::{JobState, LetterReason};

use crate::support::{World, run};

async fn failing((): (), _: redrive::engine::Context) -> Result<(), Fail> {
    Err(fail(Cause::Network, "connection reset"))
}

/// Design §4: a policy that is changed applies to work that waits.
#[test]
fn a_changed_policy_applies_to_waiting_work() {
    run(async {
        let config = |retries: u32| {
            let text = format!("[policies.mine]\nmax_retries = {retries}\ncause_specific = []\n");
            Config::parse(&text, Format::Toml, "redrive.toml").unwrap()
        };
        let world = World::with(|builder| builder.config(&config(5)));
        let job = world.engine.job("fetch", &()).policy("mine").enqueue().await.unwrap().id;
        let shutdown = redrive::engine::Shutdown::new();
        let stop = shutdown.clone();
        let worker = world.worker().observe(move |_| stop.signal()).handle("fetch", failing);
        assert_eq!(worker.run(&shutdown).await.unwrap().retried, 1);
        let before = world.engine.explain(job, Lang::En).await.unwrap().unwrap();
        assert_eq!(before.attempts[0].decision.as_ref().unwrap().max_retries, 5);
        assert!(matches!(before.job.state, JobState::Ready { .. }) && before.next_run.is_some());

        world.engine.reload(&config(1)).unwrap();
        let work = world.worker().handle("fetch", failing).run_until_empty();
        world.while_time_passes(Duration::from_secs(30), work).await.unwrap();
        let letter = world.letter(job).await;
        assert_eq!((letter.reason, letter.max_retries, letter.attempts), (LetterReason::Exhausted, 1, 2));
        let after = world.engine.explain(job, Lang::Ja).await.unwrap().unwrap();
        assert_eq!(after.letter_reason, Some(LetterReason::Exhausted));
        assert_eq!(after.attempts.len(), 2);
        assert_ne!(after.attempts[0].policy_version, after.attempts[1].policy_version);
        let (first, last) = (&after.attempts[0], after.attempts[1].decision.as_ref().unwrap());
        assert_eq!(first.cause, Some(Cause::Network));
        assert_eq!(first.decision.as_ref().unwrap().policy, "mine");
        assert!(!last.reasoning.is_ascii(), "{}", last.reasoning);
    });
}

/// R-P8: what a job overrides beats the policy, for every cause.
#[test]
fn what_a_job_overrides_beats_its_policy() {
    run(async {
        let world = World::with(|builder| builder.policy(Policy::standard()));
        let wish = Override { max_retries: Some(0), ..Override::default() };
        let job = world.engine.job("fetch", &()).overrides(&wish).enqueue().await.unwrap().id;
        world.worker().handle("fetch", failing).run_until_empty().await.unwrap();
        assert_eq!(world.letter(job).await.attempts, 1);
    });
}
