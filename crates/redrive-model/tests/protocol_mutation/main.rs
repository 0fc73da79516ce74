//! The protocol without its fence: the model finds the double settlement and tells how it comes about, and the real store makes it.
//!
//! A test binary of its own, since the fence is taken from the whole process.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![cfg(feature = "mutations")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, dead_code)]

#[path = "../protocol/explore.rs"]
mod explore;
#[path = "../../../redrive-store/tests/given/mod.rs"]
mod given;
#[path = "../protocol/rules.rs"]
mod rules;
#[path = "../protocol/scene.rs"]
mod scene;
#[path = "../protocol/state.rs"]
mod state;
#[path = "../protocol/step.rs"]
mod step;
#[path = "../protocol/tell.rs"]
mod tell;

use redrive_policy::Cause;
use redrive_store::protocol::mutation::WithoutFence;
use redrive_store::{Leases, Settled, Sqlite, SqliteOptions};

use explore::{Wanted, explore};
use given::{Hand, LEASE, at, job, released, retry_after, success};
use rules::{Broken, Model};
use state::{Budget, Nature};

fn look_for(wanted: Wanted) -> Option<(usize, explore::Trace)> {
    let model = Model::new([Nature::Good, Nature::Absent], Budget { faults: 1, ..scene::NOTHING });
    let found = explore(&model, wanted);
    found.broken.map(|trace| (found.states, trace))
}

/// Reliability rows 18 and 19, with the guard and without it: a worker that stood still beyond its lease comes back and settles. One
/// test, since the fence goes for everybody in this process.
#[tokio::test]
async fn without_the_fence_an_attempt_is_settled_twice() {
    let home = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&home.path().join("redrive.db"), SqliteOptions::default()).unwrap();
    assert!(look_for(|_| true).is_none(), "with the fence nothing is found");
    assert!(!settles_twice(&store, "fenced").await && !repeats(&store, "fenced repeat").await);

    let without = WithoutFence::begin();
    let (states, trace) = look_for(|broken| broken == Broken::SettledTwice).expect("the double settlement");
    println!("without the fence, after {states} states:\n{trace}");
    assert!(trace.steps.len() <= 12, "there is a shorter way:\n{trace}");
    let (_, loser) = look_for(|_| true).expect("who lost its lease is let in");
    assert_eq!(loser.broken, Broken::ChangedByALoser);
    // The store asks the same function, so it falls to the same story.
    assert!(settles_twice(&store, "unfenced").await && repeats(&store, "unfenced repeat").await);
    drop(without);
    assert!(!settles_twice(&store, "fenced again").await);
}

/// A worker stands still beyond its lease, another takes over, and the first comes back: whether one attempt has two
/// accepted settlements.
async fn settles_twice(store: &Sqlite, kind: &str) -> bool {
    let hand = Hand(store);
    hand.add(job(kind)).await;
    let (ann, ben) = (hand.worker().await, hand.worker().await);
    let zombie = hand.take(at(0), ann, &[kind]).await.token;
    let seized = store.seize_expired(at(30_000), ben, LEASE, 9).await.unwrap().remove(0).leased.token;
    let retry = retry_after(Cause::Crashed, at(30_000), None);
    assert!(
        matches!(hand.settle(at(30_000), seized, retry).await, Settled::Done { .. }),
        "the first settlement"
    );
    let next = hand.take(at(30_001), ben, &[kind]).await.token;
    let second = hand.settle(at(30_002), zombie, success()).await;
    let third = hand.settle(at(30_003), next, success()).await;
    assert_eq!(second == Settled::Stale, third != Settled::Stale, "one of them ends the job");
    second != Settled::Stale
}

/// The answer to a settlement is lost, so it is sent again, and by then another has the lease: whether it counts again.
async fn repeats(store: &Sqlite, kind: &str) -> bool {
    let hand = Hand(store);
    hand.add(job(kind)).await;
    let (ben, cid) = (hand.worker().await, hand.worker().await);
    let first = hand.take(at(0), ben, &[kind]).await.token;
    hand.done(at(1), first, released()).await;
    let next = hand.take(at(2), cid, &[kind]).await.token;
    let again = hand.settle(at(3), first, released()).await;
    let cids = hand.settle(at(4), next, success()).await;
    assert_eq!(
        again == Settled::Stale,
        cids != Settled::Stale,
        "Cid's work counts, if nobody took its lease"
    );
    again != Settled::Stale
}
