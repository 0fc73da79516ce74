//! Letters with one fingerprint are one group, which follows from what becomes of them (R-D10).

use redrive_policy::Cause;
use redrive_store::{
    Event, EventFilter, EventStatus, Group, GroupCounts, GroupQuery, GroupState, JobId, Order, WorkerId,
};

use crate::back_end::Given;
use crate::given::{Hand, at, cancelled, dead, failure, job, released, success};

/// A job of this kind that died with these words.
async fn died(given: &Given, worker: WorkerId, now: i64, kind: &str, words: &str) -> JobId {
    let hand = Hand(&*given.store);
    let id = hand.add_at(at(now), job(kind)).await;
    let leased = hand.take(at(now), worker, &[kind]).await;
    hand.done(at(now), leased.token, dead(Cause::Network, words)).await;
    id
}

async fn group(given: &Given, words: &str) -> Group {
    let query = GroupQuery { prefix: Some(format!("print of {words}")), ..GroupQuery::default() };
    let mut found = given.store.groups(query, 10).await.unwrap();
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

async fn states(given: &Given) -> Vec<(String, GroupState, i64)> {
    let groups = given.store.groups(GroupQuery::default(), 100).await.unwrap();
    groups.into_iter().map(|group| (group.sample, group.state, group.counts.letters)).collect()
}

/// What was told about groups, the oldest first, once there are so many. A store may add up a moment later.
async fn told(given: &Given, many: usize) -> Vec<Event> {
    let types = ["opened", "acknowledged", "resolved", "regressed"].map(|name| format!("group_{name}"));
    let began = std::time::Instant::now();
    loop {
        let types = types.to_vec();
        let filter = EventFilter { types, order: Order::OldestFirst, ..EventFilter::default() };
        let found = given.store.events(filter, 100).await.unwrap();
        if found.len() >= many || began.elapsed() > PATIENCE {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// How long a store may take to add up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

fn counts(letters: i64, failures: i64, under_way: i64, recovered: i64, relapsed: i64) -> GroupCounts {
    GroupCounts { letters, failures, under_way, recovered, relapsed }
}

async fn redrive(given: &Given, now: i64, id: JobId) {
    let redriven = given.store.redrive(at(now), vec![id], "redrive").await.unwrap();
    assert_eq!(redriven, [redrive_store::Redriven::Ready]);
}

/// R-D10: two thousand failures are three errors.
pub(crate) async fn letters_of_one_kind_are_one_group(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    for (now, words) in [(1, "few"), (2, "many"), (3, "many"), (4, "other"), (5, "many"), (6, "other")] {
        died(given, worker, now, "a", words).await;
    }
    let many = group(given, "many").await;
    assert_eq!(many.fingerprint, "print of many");
    assert_eq!(
        (many.cause, many.error_type.as_str(), many.sample.as_str()),
        (Cause::Network, "TestError", "many")
    );
    assert_eq!((many.first_seen, many.last_seen), (at(2), at(5)));
    assert_eq!((many.state, many.state_since, many.note), (GroupState::Open, at(2), None));
    assert_eq!(many.counts, counts(3, 3, 0, 0, 0));
    let open = GroupState::Open;
    let expected = [("many", open, 3), ("other", open, 2), ("few", open, 1)];
    assert_eq!(states(given).await, expected.map(|(words, state, n)| (words.to_owned(), state, n)));
    let first = given.store.groups(GroupQuery::default(), 1).await.unwrap();
    assert_eq!(first[0].sample, "many");
    let none = GroupQuery { cause: Some(Cause::Timeout), ..GroupQuery::default() };
    assert_eq!(given.store.groups(none, 10).await.unwrap(), []);
    let none = GroupQuery { states: vec![GroupState::Resolved], ..GroupQuery::default() };
    assert_eq!(given.store.groups(none, 10).await.unwrap(), []);
    let all = GroupQuery {
        states: vec![GroupState::Resolved, GroupState::Open],
        cause: Some(Cause::Network),
        prefix: Some("print of ".to_owned()),
    };
    assert_eq!(given.store.groups(all, 10).await.unwrap().len(), 3);
    assert_eq!(told(given, 0).await, [], "a group that opens is told by its letter");
}

/// R-D10: resolved when everything of it has recovered, regressed when it comes back.
pub(crate) async fn a_group_follows_its_redrive(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = died(given, worker, 0, "a", "x").await;
    redrive(given, 10, id).await;
    assert_eq!(group(given, "x").await.counts, counts(0, 1, 1, 0, 0));
    assert_eq!(group(given, "x").await.state, GroupState::Open);
    let leased = hand.take(at(11), worker, &["a"]).await;
    hand.done(at(12), leased.token, success()).await;
    let resolved = group(given, "x").await;
    assert_eq!((resolved.counts, resolved.state), (counts(0, 1, 0, 1, 0), GroupState::Resolved));
    died(given, worker, 20, "a", "x").await;
    let regressed = group(given, "x").await;
    assert_eq!((regressed.counts, regressed.state), (counts(1, 2, 0, 1, 0), GroupState::Regressed));
    assert_eq!((regressed.first_seen, regressed.last_seen), (at(0), at(20)));
}

/// R-D10: each change of a group is an event, in the same transaction.
pub(crate) async fn a_change_of_state_is_told(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = died(given, worker, 0, "a", "x").await;
    redrive(given, 10, id).await;
    let leased = hand.take(at(11), worker, &["a"]).await;
    hand.done(at(12), leased.token, success()).await;
    assert_eq!(told(given, 1).await.len(), 1);
    died(given, worker, 20, "a", "x").await;
    let told = told(given, 2).await;
    let seen: Vec<_> = told
        .iter()
        .map(|event| (event.event_type.as_str(), event.importance, event.source.as_str(), event.status))
        .collect();
    let success = EventStatus::Success;
    assert_eq!(seen, [("group_resolved", 3, "redrive", success), ("group_regressed", 4, "redrive", success)]);
    let data = serde_json::json!({ "fingerprint": "print of x", "from": "resolved", "to": "regressed", "letters": 1 });
    assert_eq!(told[1].data, data);
    assert_eq!(group(given, "x").await.state, GroupState::Regressed);
}

/// R-D10: what fails in the same way after a redrive has regressed, dead or not; when it recovers after all, it is resolved.
pub(crate) async fn failing_in_the_same_way_is_a_relapse(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = died(given, worker, 0, "a", "x").await;
    redrive(given, 1, id).await;
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(1), leased.token, released()).await;
    assert_eq!(group(given, "x").await.counts, counts(0, 1, 1, 0, 0), "given back is no failure");
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(2), leased.token, again("x", 2)).await;
    let relapsed = group(given, "x").await;
    assert_eq!((relapsed.counts, relapsed.state), (counts(0, 1, 1, 0, 1), GroupState::Regressed));
    let leased = hand.take(at(2), worker, &["a"]).await;
    hand.done(at(3), leased.token, again("something else", 3)).await;
    assert_eq!(group(given, "x").await.counts, counts(0, 1, 1, 0, 1), "that was another failure");
    let leased = hand.take(at(3), worker, &["a"]).await;
    hand.done(at(4), leased.token, success()).await;
    let resolved = group(given, "x").await;
    assert_eq!((resolved.counts, resolved.state), (counts(0, 1, 0, 1, 1), GroupState::Resolved));
    let id = died(given, worker, 5, "a", "y").await;
    redrive(given, 6, id).await;
    let leased = hand.take(at(6), worker, &["a"]).await;
    hand.done(at(7), leased.token, dead(Cause::Network, "y")).await;
    let regressed = group(given, "y").await;
    assert_eq!((regressed.counts, regressed.state), (counts(1, 2, 0, 0, 1), GroupState::Regressed));
}

fn again(words: &str, run_at: i64) -> redrive_store::Ending {
    redrive_store::Ending::Retry {
        run_at: at(run_at),
        delay: std::time::Duration::ZERO,
        held_for: None,
        hint: None,
        failure: failure(Cause::Network, words),
    }
}

/// R-D10: a redriven job that dies of something else leaves its group for another one.
pub(crate) async fn another_failure_is_another_group(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = died(given, worker, 0, "a", "old").await;
    redrive(given, 1, id).await;
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(2), leased.token, dead(Cause::Timeout, "new")).await;
    let (old, new) = (group(given, "old").await, group(given, "new").await);
    assert_eq!((old.counts, old.state), (counts(0, 1, 0, 0, 0), GroupState::Resolved));
    assert_eq!((new.counts, new.state, new.cause), (counts(1, 1, 0, 0, 0), GroupState::Open, Cause::Timeout));
    redrive(given, 3, id).await;
    assert_eq!(group(given, "new").await.counts, counts(0, 1, 1, 0, 0));
}

/// R-D10: what is cancelled, discarded or too old leaves its group; with the last one it is resolved.
pub(crate) async fn letters_that_go_leave_their_group(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut ids = Vec::new();
    for now in 0..5 {
        ids.push(died(given, worker, now, "a", "x").await);
    }
    given.store.prune(at(100), at(0), at(1), 100).await.unwrap();
    assert_eq!(group(given, "x").await.counts, counts(4, 5, 0, 0, 0), "one was too old");
    given.store.cancel(at(101), ids[1], "no".to_owned()).await.unwrap();
    let gone = given.store.discard(at(102), vec![ids[2], ids[2]], "letter_discarded", None).await.unwrap();
    assert_eq!(gone, [true, false]);
    assert_eq!(group(given, "x").await.counts, counts(2, 5, 0, 0, 0));
    redrive(given, 103, ids[3]).await;
    redrive(given, 104, ids[4]).await;
    given.store.cancel(at(105), ids[3], "no".to_owned()).await.unwrap();
    assert_eq!(group(given, "x").await.counts, counts(0, 5, 1, 0, 0));
    assert_eq!(group(given, "x").await.state, GroupState::Open);
    let leased = hand.take(at(106), worker, &["a"]).await;
    hand.done(at(107), leased.token, cancelled()).await;
    let resolved = group(given, "x").await;
    assert_eq!((resolved.counts, resolved.state), (counts(0, 5, 0, 0, 0), GroupState::Resolved));
}

/// R-D10: a person says where a group stands, with a note; what happens afterwards may say otherwise.
pub(crate) async fn a_person_says_where_a_group_stands(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    died(given, worker, 0, "a", "x").await;
    let print = "print of x".to_owned();
    let note = Some("the provider is down".to_owned());
    let set = given.store.set_group_state(at(5), print.clone(), GroupState::Acknowledged, note.clone()).await;
    let known = set.unwrap().expect("there is such a group");
    assert_eq!((known.state, known.state_since, known.note), (GroupState::Acknowledged, at(5), note.clone()));
    died(given, worker, 6, "a", "x").await;
    let known = group(given, "x").await;
    assert_eq!((known.state, known.state_since, known.note), (GroupState::Acknowledged, at(5), note));
    assert_eq!(known.counts, counts(2, 2, 0, 0, 0));
    let set = given.store.set_group_state(at(7), print, GroupState::Resolved, None).await.unwrap();
    assert_eq!(set.map(|group| (group.state, group.note)), Some((GroupState::Resolved, None)));
    died(given, worker, 8, "a", "x").await;
    assert_eq!(group(given, "x").await.state, GroupState::Regressed);
    let told = told(given, 3).await;
    let types: Vec<_> = told.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["group_acknowledged", "group_resolved", "group_regressed"]);
    assert_eq!(told[0].data["note"], "the provider is down");
    let nobody = given.store.set_group_state(at(9), "no such".to_owned(), GroupState::Open, None).await;
    assert_eq!(nobody.unwrap(), None);
}

/// R-D10: a group of which nothing is left goes with time; one with letters or work on its way never does.
pub(crate) async fn old_groups_go(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let gone = died(given, worker, 0, "a", "gone").await;
    let under_way = died(given, worker, 1, "a", "under way").await;
    given.store.discard(at(2), vec![gone], "letter_discarded", Some("old".to_owned())).await.unwrap();
    redrive(given, 3, under_way).await;
    died(given, worker, 200, "b", "young").await;
    let left = async || {
        let began = std::time::Instant::now();
        loop {
            given.store.prune(at(300), at(0), at(100), 100).await.unwrap();
            let left: Vec<_> = states(given).await.into_iter().map(|(words, ..)| words).collect();
            if left.len() <= 2 || began.elapsed() > PATIENCE {
                return left;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    assert_eq!(left().await, ["young", "under way"]);
    let leased = hand.take(at(301), worker, &["a"]).await;
    hand.done(at(302), leased.token, success()).await;
    assert_eq!(left().await, ["young", "under way"], "it was resolved just now");
}
