//! Old events and letters go; those of the living stay (R-D6).

use redrive_policy::Cause;
use redrive_store::{JobState, LetterFilter, NewJob, Pruned};

use crate::back_end::Given;
use crate::given::{Hand, at, job, success};
use crate::import::imported;

const LATER: i64 = 1_000_000;

fn gone(events: u64, letters: u64) -> Pruned {
    Pruned { events, letters, more: false }
}

/// R-D6
pub(crate) async fn living_jobs_and_letters_keep_their_events(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let letter = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    let waiting = hand.add(NewJob { run_at: Some(at(LATER * 2)), ..job("a") }).await;
    let running = hand.add(job("a")).await;
    hand.take(at(0), worker, &["a"]).await;
    let ended = hand.add(job("b")).await;
    let leased = hand.take(at(0), worker, &["b"]).await;
    hand.done(at(0), leased.token, success()).await;
    given.store.import(at(0), vec![imported("told", None, 0)], Vec::new()).await.unwrap();
    let young = hand.add_at(at(LATER), job("c")).await;
    let gone = given.store.prune(at(LATER), at(LATER), at(0), 1_000).await.unwrap();
    assert_eq!(
        (gone.events, gone.letters, gone.more),
        (4, 0, false),
        "three of the job that is over, and what was told"
    );
    assert_eq!(given.store.job(ended).await.unwrap(), None);
    assert_eq!(given.store.event("told".to_owned()).await.unwrap(), None);
    let mut kept = Vec::new();
    for id in [letter, waiting, running, young] {
        kept.push(hand.types(id).await.len());
    }
    assert_eq!(kept, [3, 1, 2, 1]);
    let status = given.store.status(at(LATER)).await.unwrap();
    assert_eq!(status.events, 7);
    assert_eq!(status.lanes.iter().map(|lane| lane.succeeded).sum::<u64>(), 1, "what happened, happened");
}

/// R-D6: 14 days after its death, by the caller's reckoning.
pub(crate) async fn old_letters_go(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mine = NewJob { unique_key: Some("k".to_owned()), caller_id: Some("me".to_owned()), ..job("a") };
    let old = hand.letter(at(0), worker, mine, Cause::Network).await;
    let young = hand.letter(at(10), worker, job("a"), Cause::Timeout).await;
    assert_eq!(given.store.prune(at(LATER), at(0), at(10), 9).await.unwrap(), gone(0, 1));
    let letters = given.store.letters(LetterFilter::default(), 9).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [young]);
    assert_eq!(hand.record(old).await.state, JobState::Ended);
    let last = hand.story(old).await.pop().unwrap();
    assert_eq!(last.event_type, "letter_expired");
    assert_eq!(last.data["caller_id"], "me", "its story is found by the caller's id to its end");
    let status = given.store.status(at(LATER)).await.unwrap();
    assert_eq!((status.dead_letters, status.by_cause.get(&Cause::Network)), (1, None));
    assert_eq!(status.failed_events, 0, "it had a letter");
    // With its letter gone, its events may go, too.
    assert_eq!(given.store.prune(at(LATER), at(LATER + 1), at(0), 99).await.unwrap(), gone(4, 0));
    assert_eq!(given.store.job(old).await.unwrap(), None);
}

/// R-D6: nobody waits for it, and every round comes further, past what must stay.
pub(crate) async fn a_round_is_bounded(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    given.store.enqueue(at(0), vec![NewJob { run_at: Some(at(LATER)), ..job("kept") }; 30]).await.unwrap();
    given.store.enqueue(at(0), vec![job("a"); 20]).await.unwrap();
    for _ in 0..20 {
        let leased = hand.take(at(0), worker, &["a"]).await;
        hand.done(at(0), leased.token, success()).await;
    }
    let mut gone = 0;
    for _ in 0..100 {
        let Pruned { events, more, .. } = given.store.prune(at(LATER), at(LATER), at(0), 7).await.unwrap();
        assert!(events <= 7);
        gone += events;
        // Also after a stretch in which everything had to stay.
        if !more {
            break;
        }
    }
    assert_eq!(gone, 60);
    assert_eq!(given.store.status(at(0)).await.unwrap().events, 30);
}

/// R-E4: what was pruned is unknown, so it may be imported again.
pub(crate) async fn an_import_comes_back_after_it(given: &Given) {
    let one = || vec![imported("x", None, 0)];
    given.store.import(at(0), one(), Vec::new()).await.unwrap();
    assert_eq!(given.store.prune(at(LATER), at(LATER), at(0), 9).await.unwrap(), gone(1, 0));
    assert_eq!(given.store.import(at(LATER), one(), Vec::new()).await.unwrap(), 1);
    // However old it is: whoever brought it in wants to see it.
    assert_eq!(given.store.prune(at(LATER), at(LATER), at(0), 9).await.unwrap(), gone(0, 0));
    assert_eq!(given.store.prune(at(LATER), at(LATER + 1), at(0), 9).await.unwrap(), gone(1, 0));
}
