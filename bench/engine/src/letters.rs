//! Dead letters by the hundred thousand, through the same door as real ones.

use std::time::Duration;

use redrive_policy::{Cause, Failure, History, Lang, Policy, Rng, decide};
use redrive_store::{
    Ending, FailedAttempt, Jobs, LeaseRequest, Leases, LetterReason, NewJob, NewLetter, Output, Settlement,
    StoredDecision, Workers,
};

use crate::measure::{Bench, now};

pub async fn make(bench: &Bench, letters: usize) {
    let worker =
        bench.store.register(now(), "letters".into(), Duration::from_secs(600)).await.expect("a worker");
    let decision =
        decide(&Policy::standard(), &Failure::of(Cause::AuthError), &History::default(), &mut Rng::seeded(1));
    let failure = FailedAttempt {
        cause: Cause::AuthError,
        retryable: false,
        rule: "http.unauthorized".into(),
        fingerprint: "9012f945108ff211".into(),
        error_type: "HttpStatus".into(),
        error_message: "401 Unauthorized".into(),
        stack_trace: None,
        http_status: Some(401),
        code: None,
        latency: Some(Duration::from_millis(3)),
        exit_code: None,
        output: Output::default(),
        decision: StoredDecision {
            record: decision.record(Lang::En),
            policy_version: Policy::standard().version(),
            rule: Some("http.unauthorized".into()),
            ja: decision.record(Lang::Ja),
        },
        charged_to_crashes: false,
        decided_on: redrive_store::DecidedOn::default(),
    };
    let mut left = letters;
    while left > 0 {
        let some = left.min(2_000);
        bench.store.enqueue(now(), vec![NewJob::new("dying", "{}"); some]).await.expect("enqueued");
        let request = LeaseRequest {
            worker,
            queues: vec!["default".into()],
            kinds: vec!["dying".into()],
            reserved_only: false,
            max: some,
            lease_for: Duration::from_secs(30),
            begin: true,
            wait: Duration::ZERO,
        };
        let leased = bench.store.lease(now(), request).await.expect("leased");
        let settlements = leased.iter().map(|leased| Settlement {
            token: leased.token,
            ending: Ending::Dead {
                failure: Box::new(failure.clone()),
                letter: Box::new(NewLetter {
                    reason: LetterReason::NonRetryable,
                    context: serde_json::json!({ "action": "flat" }),
                    report: serde_json::json!({}),
                }),
            },
        });
        bench.store.settle(now(), settlements.collect()).await.expect("settled");
        left -= some;
    }
}
