//! Events from elsewhere come in once, under the ids that they came with (R-E4).

use redrive_store::{EventFilter, ImportedEvent, NewEvent, Order, Scrap, Trouble};

use crate::back_end::Given;
use crate::given::at;

pub(crate) fn imported(id: &str, parent: Option<&str>, millis: i64) -> ImportedEvent {
    let event = NewEvent {
        event_type: "old".to_owned(),
        source: "seed".to_owned(),
        data: serde_json::json!({ "n": id }),
        ..NewEvent::default()
    };
    ImportedEvent {
        event,
        event_id: id.to_owned(),
        parent_event_id: parent.map(str::to_owned),
        at: at(millis),
    }
}

/// R-E4
pub(crate) async fn twice_adds_nothing(given: &Given) {
    let both = || {
        vec![
            imported("EVT-20251106-090000-xyz789", None, -9),
            imported("EVT-20251106-090000-abcdef", None, -8),
        ]
    };
    assert_eq!(given.store.import(at(0), both(), Vec::new()).await.unwrap(), 2);
    assert_eq!(given.store.import(at(1), both(), Vec::new()).await.unwrap(), 0);
    let three = vec![imported("x", None, 0), imported("x", None, 0), both().remove(0)];
    assert_eq!(given.store.import(at(2), three, Vec::new()).await.unwrap(), 1);
    let read = given.store.event("EVT-20251106-090000-xyz789".to_owned()).await.unwrap().unwrap();
    assert_eq!((read.event_id.as_str(), read.timestamp), ("EVT-20251106-090000-xyz789", at(-9)));
    // What was exported from here and comes back is known by its own id.
    let own = given.store.append(at(5), vec![imported("-", None, 0).event]).await.unwrap().remove(0);
    assert_eq!(given.store.import(at(6), vec![imported(&own.1, None, 5)], Vec::new()).await.unwrap(), 0);
    assert_eq!(given.store.events(EventFilter::default(), 99).await.unwrap().len(), 4);
}

/// R-E4: what came from elsewhere is known by the id that it came with, and by no other: its place and its time would make
/// one that an event of yet another store may have.
pub(crate) async fn a_place_is_no_id_of_what_came_from_elsewhere(given: &Given) {
    assert_eq!(given.store.import(at(0), vec![imported("theirs", None, -9)], Vec::new()).await.unwrap(), 1);
    let theirs = given.store.event("theirs".to_owned()).await.unwrap().unwrap();
    let like_ours = theirs.seq.event_id(theirs.timestamp);
    assert_eq!(given.store.event(like_ours.clone()).await.unwrap(), None);
    let other = vec![imported(&like_ours, None, -9)];
    assert_eq!(given.store.import(at(1), other, Vec::new()).await.unwrap(), 1);
    assert_ne!(given.store.event(like_ours).await.unwrap().unwrap().seq, theirs.seq);
}

/// R-E3, R-E4: also across calls, and a parent that is nowhere keeps its name.
pub(crate) async fn parents_are_found_by_their_ids(given: &Given) {
    let first = vec![imported("root", None, 0), imported("child", Some("root"), 1)];
    given.store.import(at(9), first, Vec::new()).await.unwrap();
    let second = vec![imported("grandchild", Some("child"), 2), imported("orphan", Some("nowhere"), 3)];
    given.store.import(at(9), second, Vec::new()).await.unwrap();
    let grandchild = given.store.event("grandchild".to_owned()).await.unwrap().unwrap();
    assert_eq!(grandchild.parent_event_id.as_deref(), Some("child"));
    let chain = given.store.causality(grandchild.seq, 9).await.unwrap();
    assert_eq!(
        chain.iter().map(|event| event.event_id.as_str()).collect::<Vec<_>>(),
        ["root", "child", "grandchild"]
    );
    let orphan = given.store.event("orphan".to_owned()).await.unwrap().unwrap();
    assert_eq!((orphan.parent, orphan.parent_event_id.as_deref()), (None, Some("nowhere")));
    let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    assert_eq!(given.store.events(filter, 9).await.unwrap()[0].event_id, "root");
}

/// R-D6, R-E4: nothing that parses badly is lost.
pub(crate) async fn what_cannot_be_read_is_kept(given: &Given) {
    let scrap = |line: u64| Scrap {
        origin: "events.jsonl".to_owned(),
        line,
        why: "not JSON".to_owned(),
        text: vec![0xff, b'{', 0],
    };
    let added =
        given.store.import(at(3), vec![imported("good", None, 0)], vec![scrap(1), scrap(7)]).await.unwrap();
    assert_eq!(added, 1);
    let kept = given.store.asides(0, 9).await.unwrap();
    assert_eq!(kept.iter().map(|aside| aside.scrap.clone()).collect::<Vec<_>>(), [scrap(1), scrap(7)]);
    assert_eq!(kept[0].at, at(3));
    assert_eq!(given.store.asides(kept[0].id, 9).await.unwrap(), kept[1..]);
    assert_eq!(given.store.asides(0, 1).await.unwrap(), kept[..1]);
}

/// R-E4: what cannot be stored is no event; the caller keeps it aside.
pub(crate) async fn what_cannot_be_stored_is_refused(given: &Given) {
    let good = || imported("x", None, 0);
    let with = |change: fn(&mut NewEvent)| {
        let mut one = good();
        change(&mut one.event);
        one
    };
    for bad in [
        ImportedEvent { event_id: String::new(), ..good() },
        ImportedEvent { event_id: "x".repeat(256), ..good() },
        ImportedEvent { parent_event_id: Some("a\nb".to_owned()), ..good() },
        with(|event| event.event_type = "x".repeat(1 << 16)),
        with(|event| event.importance = Some(9)),
    ] {
        assert!(bad.validate().is_err());
        let error =
            given.store.import(at(0), vec![imported("y", None, 0), bad], Vec::new()).await.unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Refused(_)), "{error}");
    }
    assert_eq!(given.store.status(at(0)).await.unwrap().events, 0);
}
