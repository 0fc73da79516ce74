//! The outbox: what waits for the network is sent in its order, each with one key, however often it is sent (R-I7).

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_store::{
    Added, Event, EventFilter, EventStatus, ItemQuery, ItemState, NewItem, NextSend, Order, OutboxItem,
    Refusal, SendEnd, Trouble,
};
use serde_json::json;

use crate::back_end::Given;
use crate::given::at;

const HOLD: Duration = Duration::from_secs(30);

fn new(lane: &str, key: &str) -> NewItem {
    NewItem {
        lane: lane.to_owned(),
        key: key.to_owned(),
        call: json!({ "url": "https://far.example/v1", "body": format!("a\u{0}b of {key}") }),
        call_hash: format!("hash of {key}"),
    }
}

async fn added(given: &Given, now: i64, lane: &str, key: &str) -> i64 {
    match given.store.add_item(at(now), new(lane, key)).await.unwrap() {
        Added::New(item) => item,
        other => panic!("not new: {other:?}"),
    }
}

async fn hold(given: &Given, now: i64, lane: &str, holder: i64) -> bool {
    given.store.hold_lane(at(now), lane.to_owned(), holder, HOLD).await.unwrap()
}

async fn next(given: &Given, now: i64, lane: &str, holder: i64) -> NextSend {
    given.store.begin_send(at(now), lane.to_owned(), holder).await.unwrap()
}

/// Begins, and there must be something.
async fn begun(given: &Given, now: i64, lane: &str, holder: i64) -> OutboxItem {
    match next(given, now, lane, holder).await {
        NextSend::Item(item) => *item,
        other => panic!("nothing was begun: {other:?}"),
    }
}

async fn end(given: &Given, now: i64, item: i64, holder: i64, end: SendEnd) -> bool {
    given.store.end_send(at(now), item, holder, end, Some("the answer".to_owned()), Some(200)).await.unwrap()
}

async fn read(given: &Given, item: i64) -> OutboxItem {
    given.store.item(item).await.unwrap().expect("there is such an item")
}

async fn told(given: &Given, item: i64) -> Vec<Event> {
    let caller_id = Some(format!("outbox-{item}"));
    let filter = EventFilter { caller_id, order: Order::OldestFirst, ..EventFilter::default() };
    given.store.events(filter, 100).await.unwrap()
}

async fn types(given: &Given, item: i64) -> Vec<String> {
    told(given, item).await.into_iter().map(|event| event.event_type).collect()
}

/// R-I7: an item is read back as it was given, and told without what is sent.
pub(crate) async fn an_item_is_read_back(given: &Given) {
    let item = added(given, 3, "far", "k").await;
    let read = read(given, item).await;
    let given_item = OutboxItem {
        id: item,
        lane: "far".to_owned(),
        key: "k".to_owned(),
        call: new("far", "k").call,
        state: ItemState::Pending,
        sends: 0,
        created_at: at(3),
        not_before: at(3),
        sent_at: None,
        ended_at: None,
        last: None,
        last_status: None,
    };
    assert_eq!(read, given_item);
    let events = told(given, item).await;
    assert_eq!(
        (events.len(), &*events[0].event_type, events[0].status),
        (1, "outbox_added", EventStatus::Pending)
    );
    assert_eq!((&events[0].data["lane"], &events[0].data["key"]), (&"far".into(), &"k".into()));
    assert!(!events[0].data.to_string().contains("far.example"), "what is sent is not told");
    assert_eq!(given.store.item(item + 1_000).await.unwrap(), None);
    for bad in
        [NewItem { lane: String::new(), ..new("", "k") }, NewItem { key: "a\0".to_owned(), ..new("far", "") }]
    {
        let refused = given.store.add_item(at(3), bad).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Refused(Refusal::BadName { .. })), "{refused}");
    }
}

/// R-I7: the same key is the same item, in whatever state; with another call it is refused; another lane is another matter.
pub(crate) async fn the_same_key_is_the_same_item(given: &Given) {
    let store = &given.store;
    let item = added(given, 0, "far", "k").await;
    assert_eq!(store.add_item(at(1), new("far", "k")).await.unwrap(), Added::Known(item, ItemState::Pending));
    let other = NewItem { call_hash: "hash of something else".to_owned(), ..new("far", "k") };
    assert_eq!(store.add_item(at(1), other.clone()).await.unwrap(), Added::Other(item));
    assert_ne!(added(given, 1, "near", "k").await, item);
    assert!(hold(given, 2, "far", 1).await);
    begun(given, 2, "far", 1).await;
    assert!(end(given, 3, item, 1, SendEnd::Sent).await);
    assert_eq!(store.add_item(at(4), new("far", "k")).await.unwrap(), Added::Known(item, ItemState::Sent));
    assert_eq!(store.add_item(at(4), other).await.unwrap(), Added::Other(item));
    assert_eq!(types(given, item).await, ["outbox_added", "outbox_sent"]);
}

/// R-I7: items of a lane go in the order in which they were added, those behind one that waits wait too, and lanes are independent.
pub(crate) async fn a_lane_keeps_its_order(given: &Given) {
    let mut items = Vec::new();
    for number in 0..4 {
        items.push(added(given, number, "far", &format!("k{number}")).await);
    }
    let near = added(given, 9, "near", "k").await;
    assert_eq!(given.store.pending_lanes().await.unwrap(), ["far", "near"]);
    assert!(hold(given, 10, "far", 1).await && hold(given, 10, "near", 1).await);
    let first = begun(given, 10, "far", 1).await;
    assert_eq!((first.id, first.sends, first.sent_at), (items[0], 1, Some(at(10))));
    assert_eq!(first.call, new("far", "k0").call);
    assert!(end(given, 11, items[0], 1, SendEnd::Again(at(5_000))).await);
    assert_eq!(next(given, 4_999, "far", 1).await, NextSend::NotBefore(at(5_000)), "those behind it wait");
    assert_eq!(begun(given, 11, "near", 1).await.id, near);
    assert!(end(given, 11, near, 1, SendEnd::Sent).await);
    assert_eq!(given.store.pending_lanes().await.unwrap(), ["far"]);
    let again = begun(given, 5_000, "far", 1).await;
    assert_eq!((again.id, again.sends), (items[0], 2));
    assert_eq!((again.last.as_deref(), again.last_status), (Some("the answer"), Some(200)));
    assert!(end(given, 5_001, items[0], 1, SendEnd::Failed).await);
    // One that failed for good does not hold the others back.
    for item in &items[1..] {
        assert_eq!(begun(given, 5_002, "far", 1).await.id, *item);
        assert!(end(given, 5_003, *item, 1, SendEnd::Sent).await);
    }
    assert_eq!(next(given, 5_004, "far", 1).await, NextSend::Empty);
    assert_eq!(given.store.pending_lanes().await.unwrap(), [""; 0]);
    let sent = read(given, items[1]).await;
    assert_eq!((sent.state, sent.sends, sent.ended_at), (ItemState::Sent, 1, Some(at(5_003))));
    let status = given.store.status(at(5_004)).await.unwrap();
    assert_eq!((status.outbox_failed, status.unknown_outcomes), (1, 0));
    let events = told(given, items[0]).await;
    let failed = events.last().expect("it was told");
    assert_eq!(
        (&*failed.event_type, failed.status, failed.importance),
        ("outbox_failed", EventStatus::DeadLetter, 4)
    );
    assert_eq!((&failed.data["sends"], &failed.data["http_status"]), (&2.into(), &200.into()));
    assert_eq!(events.len(), 2, "only the end is told");
}

/// R-I7: one holds a lane; whoever does not sends nothing from it and says nothing about it.
pub(crate) async fn one_holds_a_lane(given: &Given) {
    let item = added(given, 0, "far", "k").await;
    assert_eq!(next(given, 0, "far", 1).await, NextSend::NotOurs);
    assert!(hold(given, 0, "far", 1).await);
    assert!(!hold(given, 29_999, "far", 2).await);
    assert!(hold(given, 10_000, "far", 1).await, "who has it may hold it longer");
    assert!(!hold(given, 39_999, "far", 2).await);
    begun(given, 39_999, "far", 1).await;
    assert_eq!(next(given, 40_000, "far", 1).await, NextSend::NotOurs, "its time is over");
    assert!(hold(given, 40_000, "far", 2).await);
    assert!(!end(given, 40_001, item, 1, SendEnd::Sent).await, "another has the lane");
    assert_eq!(read(given, item).await.state, ItemState::Pending);
    begun(given, 40_001, "far", 2).await;
    // Its time is over and nobody else came: what it says still counts.
    assert!(end(given, 90_000, item, 2, SendEnd::Again(at(0))).await);
    given.store.leave_lane("far".to_owned(), 1).await.unwrap();
    assert!(hold(given, 40_002, "far", 2).await);
    assert!(!hold(given, 40_002, "far", 3).await, "who does not have it cannot leave it");
    given.store.leave_lane("far".to_owned(), 2).await.unwrap();
    assert!(hold(given, 40_002, "far", 3).await);
    // A holder whose clock is far ahead keeps nobody out for ever.
    assert!(hold(given, 40_000_000, "far", 3).await);
    assert!(hold(given, 40_003, "far", 4).await);
}

/// R-I7, reliability: a send is counted before it leaves, so a crash in between does not send for ever.
pub(crate) async fn a_begun_send_is_counted(given: &Given) {
    let item = added(given, 0, "far", "k").await;
    for crash in 1..=3 {
        assert!(hold(given, crash * 100_000, "far", crash).await);
        let begun = begun(given, crash * 100_000, "far", crash).await;
        assert_eq!(
            (begun.id, i64::from(begun.sends), &*begun.key),
            (item, crash, "k"),
            "one key for every send"
        );
    }
    let elsewhere = given.another().await;
    let read = elsewhere.item(item).await.unwrap().expect("it is there");
    assert_eq!((read.sends, read.sent_at), (3, Some(at(300_000))));
    elsewhere.close().await.unwrap();
}

/// R-I7: a send that never left does not count.
pub(crate) async fn what_never_left_is_uncounted(given: &Given) {
    let item = added(given, 0, "far", "k").await;
    assert!(hold(given, 0, "far", 1).await);
    begun(given, 1, "far", 1).await;
    assert!(end(given, 2, item, 1, SendEnd::NeverLeft(at(100))).await);
    let waits = read(given, item).await;
    assert_eq!(
        (waits.sends, waits.sent_at, waits.not_before, waits.state),
        (0, None, at(100), ItemState::Pending)
    );
    assert_eq!(next(given, 99, "far", 1).await, NextSend::NotBefore(at(100)));
    begun(given, 100, "far", 1).await;
    assert!(end(given, 101, item, 1, SendEnd::Again(at(200))).await);
    begun(given, 200, "far", 1).await;
    assert!(end(given, 201, item, 1, SendEnd::NeverLeft(at(300))).await);
    assert_eq!(read(given, item).await.sends, 1);
    assert_eq!(types(given, item).await, ["outbox_added"]);
}

/// R-I7: what failed is put back at its old place, with a fresh count, by name or all of it.
pub(crate) async fn what_failed_is_put_back_at_its_place(given: &Given) {
    let store = &given.store;
    let mut items = Vec::new();
    for number in 0..4 {
        items.push(added(given, 0, "far", &format!("k{number}")).await);
    }
    assert!(hold(given, 0, "far", 1).await);
    for item in &items[..3] {
        assert_eq!(begun(given, 1, "far", 1).await.id, *item);
        assert!(end(given, 2, *item, 1, SendEnd::Failed).await);
    }
    let wanted = vec![items[1], items[3], items[3] + 1_000];
    assert_eq!(store.retry_items(at(5), wanted).await.unwrap(), [items[1]]);
    let back = read(given, items[1]).await;
    assert_eq!(
        (back.state, back.sends, back.not_before, back.ended_at),
        (ItemState::Pending, 0, at(5), None)
    );
    assert_eq!(begun(given, 6, "far", 1).await.id, items[1], "before the one behind it");
    assert!(end(given, 6, items[1], 1, SendEnd::Sent).await);
    assert_eq!(store.retry_items(at(7), Vec::new()).await.unwrap(), [items[0], items[2]]);
    assert_eq!(store.retry_items(at(7), Vec::new()).await.unwrap(), [0; 0]);
    assert_eq!(begun(given, 7, "far", 1).await.id, items[0]);
    assert_eq!(types(given, items[0]).await, ["outbox_added", "outbox_failed", "outbox_retried"]);
    let many = vec![items[0]; redrive_store::MAX_BATCH + 1];
    let refused = store.retry_items(at(8), many).await.unwrap_err();
    assert!(matches!(refused.trouble(), Trouble::Refused(Refusal::TooMany { .. })), "{refused}");
}

/// R-I7: an item that is not sent is taken out by hand; one that is sent stays.
pub(crate) async fn what_is_discarded_is_gone(given: &Given) {
    let store = &given.store;
    let (first, second) = (added(given, 0, "far", "a").await, added(given, 0, "far", "b").await);
    assert!(hold(given, 0, "far", 1).await);
    begun(given, 1, "far", 1).await;
    assert!(store.discard_item(at(2), first).await.unwrap());
    assert!(!store.discard_item(at(2), first).await.unwrap());
    assert!(!end(given, 3, first, 1, SendEnd::Sent).await, "nobody asks any more");
    assert_eq!(types(given, first).await, ["outbox_added", "outbox_discarded"]);
    assert_eq!(begun(given, 4, "far", 1).await.id, second);
    assert!(end(given, 5, second, 1, SendEnd::Sent).await);
    assert!(!store.discard_item(at(6), second).await.unwrap());
    assert!(!end(given, 6, second, 1, SendEnd::Failed).await, "the end is the end");
    assert_eq!(types(given, second).await, ["outbox_added", "outbox_sent"]);
    assert!(added(given, 7, "far", "a").await > second, "numbers are not given again");
}

/// R-I7: items are listed in their order, page by page, by lane and state.
pub(crate) async fn items_are_listed_in_pages(given: &Given) {
    let mut items = Vec::new();
    for number in 0..10 {
        let lane = if number % 2 == 0 { "even" } else { "odd" };
        items.push(added(given, 0, lane, &format!("k{number}")).await);
    }
    assert!(hold(given, 0, "odd", 1).await);
    for _ in 0..2 {
        let item = begun(given, 0, "odd", 1).await.id;
        assert!(end(given, 0, item, 1, SendEnd::Failed).await);
    }
    let list = async |query: ItemQuery| -> Vec<i64> {
        given.store.items(query).await.unwrap().into_iter().map(|item| item.id).collect()
    };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = list(ItemQuery { after, limit: 4, ..ItemQuery::default() }).await;
        let Some(furthest) = page.last() else { break };
        after = Some(*furthest);
        seen.extend(page);
    }
    assert_eq!(seen, items);
    let even = ItemQuery { lane: Some("even".to_owned()), limit: 3, ..ItemQuery::default() };
    assert_eq!(list(even.clone()).await, [items[0], items[2], items[4]]);
    assert_eq!(list(ItemQuery { after: Some(items[4]), ..even }).await, [items[6], items[8]]);
    let failed = ItemQuery { state: Some(ItemState::Failed), limit: 9, ..ItemQuery::default() };
    assert_eq!(list(failed.clone()).await, [items[1], items[3]]);
    assert_eq!(list(ItemQuery { lane: Some("even".to_owned()), ..failed }).await, [0; 0]);
    let pending =
        ItemQuery { state: Some(ItemState::Pending), lane: Some("odd".to_owned()), limit: 9, after: None };
    assert_eq!(list(pending).await, [items[5], items[7], items[9]]);
}

/// R-I7: what was sent is forgotten in time, a few at once; what waits or failed never is.
pub(crate) async fn what_was_sent_is_forgotten(given: &Given) {
    let store = &given.store;
    let failed = added(given, 0, "far", "failed").await;
    for number in 0..5 {
        added(given, 0, "far", &format!("k{number}")).await;
    }
    let pending = added(given, 0, "far", "pending").await;
    assert!(hold(given, 0, "far", 1).await);
    for now in 0..6 {
        let item = begun(given, now, "far", 1).await.id;
        assert!(end(given, now, item, 1, if item == failed { SendEnd::Failed } else { SendEnd::Sent }).await);
    }
    assert_eq!(store.sweep_items(at(1), 10).await.unwrap(), 0);
    assert_eq!(store.sweep_items(at(2), 10).await.unwrap(), 1);
    assert_eq!(store.sweep_items(at(1_000_000), 3).await.unwrap(), 3);
    assert_eq!(store.sweep_items(at(1_000_000), 3).await.unwrap(), 1);
    assert_eq!(store.sweep_items(at(1_000_000), 3).await.unwrap(), 0);
    let left = store.items(ItemQuery { limit: 10, ..ItemQuery::default() }).await.unwrap();
    assert_eq!(left.iter().map(|item| item.id).collect::<Vec<_>>(), [failed, pending]);
}

/// R-I7: of many who save the same thing at once, one makes the key and all use it, until it is forgotten.
pub(crate) async fn a_save_has_one_key(given: &Given) {
    let elsewhere = given.another().await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..64 {
        let store = if number % 2 == 0 { given.store.clone() } else { elsewhere.clone() };
        let fresh = format!("key {number}");
        all.spawn(async move { store.saved_key(at(0), "a save".to_owned(), fresh).await.unwrap() });
    }
    let keys: BTreeSet<String> = all.join_all().await.into_iter().collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let kept = elsewhere.saved_key(at(9), "a save".to_owned(), "late".to_owned()).await.unwrap();
    assert!(keys.contains(&kept));
    elsewhere.close().await.unwrap();
    let store = &given.store;
    assert_eq!(store.saved_key(at(9), "another".to_owned(), "fresh".to_owned()).await.unwrap(), "fresh");
    let forget = async |key: &str| store.forget_saved_key("a save".to_owned(), key.to_owned()).await.unwrap();
    assert!(!forget("another").await, "only the key that one knows of is forgotten");
    assert!(forget(&kept).await);
    assert!(!forget(&kept).await);
    assert_eq!(store.saved_key(at(9), "a save".to_owned(), "new".to_owned()).await.unwrap(), "new");
    assert!(!forget(&kept).await, "who comes late does not forget what was saved since");
    assert_eq!(store.saved_key(at(9), "a save".to_owned(), "newer".to_owned()).await.unwrap(), "new");
}

/// R-I7: the key of a save is forgotten in time, a few at once, but not while an item has it: sent or not, the same save finds it.
pub(crate) async fn old_saves_are_forgotten(given: &Given) {
    let store = &given.store;
    let save = async |now: i64, name: &str, fresh: &str| {
        store.saved_key(at(now), name.to_owned(), fresh.to_owned()).await.unwrap()
    };
    for name in ["sent", "pending", "failed", "crashed 1", "crashed 2", "crashed 3"] {
        save(10, name, &format!("key of {name}")).await;
    }
    save(5_000, "young", "key of young").await;
    for name in ["sent", "failed", "pending"] {
        added(given, 11, "far", &format!("key of {name}")).await;
    }
    assert!(hold(given, 100, "far", 1).await);
    for how in [SendEnd::Sent, SendEnd::Failed] {
        let item = begun(given, 100, "far", 1).await.id;
        assert!(end(given, 200, item, 1, how).await);
    }
    assert_eq!(store.sweep_items(at(10), 10).await.unwrap(), 0);
    assert_eq!(store.sweep_items(at(100), 2).await.unwrap(), 2);
    assert_eq!(store.sweep_items(at(100), 2).await.unwrap(), 1);
    assert_eq!(store.sweep_items(at(100), 2).await.unwrap(), 0);
    assert_eq!(save(300, "crashed 2", "another").await, "another");
    assert_eq!(save(300, "sent", "another").await, "key of sent", "its item is there");
    // The item first, then its key, and no more than that at once.
    assert_eq!(store.sweep_items(at(201), 1).await.unwrap(), 1);
    assert_eq!(save(300, "sent", "another").await, "key of sent");
    assert_eq!(store.sweep_items(at(201), 1).await.unwrap(), 1);
    assert_eq!(save(300, "sent", "a third").await, "a third");
    assert_eq!(store.sweep_items(at(1_000), 10).await.unwrap(), 2, "those of this test's second round");
    for name in ["pending", "failed", "young"] {
        assert_eq!(save(300, name, "another").await, format!("key of {name}"));
    }
}
