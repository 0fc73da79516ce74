//! The board: whoever changes a notice has seen what it said, and what belongs to the change is there with it or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::{
    EventFilter, JobId, MAX_NOTICE_BYTES, NewEvent, NewJob, Notice, NoticeChange, Order, Posted, Refusal,
    Trouble,
};

use crate::back_end::Given;
use crate::given::{Hand, at, job, wants};

fn put(name: &str, seen: Option<i64>, value: &str) -> NoticeChange {
    let (space, value) = ("schedule".to_owned(), Some(value.to_owned()));
    NoticeChange { space, name: name.to_owned(), seen, value, due_at: None }
}

fn gone(name: &str, seen: Option<i64>) -> NoticeChange {
    NoticeChange { value: None, ..put(name, seen, "") }
}

fn event() -> NewEvent {
    NewEvent {
        event_type: "schedule_fired".to_owned(),
        source: "redrive".to_owned(),
        data: serde_json::json!({ "name": "nightly" }),
        ..NewEvent::default()
    }
}

async fn posted(given: &Given, now: i64, changes: Vec<NoticeChange>) -> Vec<Option<i64>> {
    match given.store.post(at(now), changes, Vec::new(), Vec::new()).await.unwrap() {
        Posted::Done { versions, .. } => versions,
        Posted::Outrun => panic!("somebody was faster"),
    }
}

/// Puts one up, or says it anew; answers its version.
async fn said(given: &Given, name: &str, seen: Option<i64>, value: &str) -> i64 {
    posted(given, 0, vec![put(name, seen, value)]).await[0].expect("it is up")
}

async fn outrun(given: &Given, changes: Vec<NoticeChange>, jobs: Vec<NewJob>, events: Vec<NewEvent>) {
    assert_eq!(given.store.post(at(9), changes, jobs, events).await.unwrap(), Posted::Outrun);
}

async fn read(given: &Given, name: &str) -> Option<Notice> {
    given.store.notice("schedule".to_owned(), name.to_owned()).await.unwrap()
}

async fn values(given: &Given) -> Vec<String> {
    let notices = given.store.notices("schedule".to_owned(), None, 100).await.unwrap();
    notices.into_iter().map(|notice| format!("{}={}", notice.name, notice.value)).collect()
}

/// R-P15, R-C5: a notice is read back as it was put up, and a change counts for who has seen the version before it.
pub(crate) async fn a_change_counts_for_who_has_seen_the_version(given: &Given) {
    assert_eq!(read(given, "a").await, None);
    let text = r#"{"every":"5m","note":"毎日\u0000"}"#;
    let change = NoticeChange { due_at: Some(at(500)), ..put("a", None, text) };
    let first = posted(given, 7, vec![change]).await[0].expect("it is up");
    let notice = Notice {
        space: "schedule".to_owned(),
        name: "a".to_owned(),
        version: first,
        value: text.to_owned(),
        due_at: Some(at(500)),
        changed_at: at(7),
    };
    assert_eq!(read(given, "a").await, Some(notice.clone()));
    outrun(given, vec![put("a", None, "1")], Vec::new(), Vec::new()).await;
    outrun(given, vec![put("a", Some(first + 1), "1")], Vec::new(), Vec::new()).await;
    outrun(given, vec![put("b", Some(first), "1")], Vec::new(), Vec::new()).await;
    assert_eq!(read(given, "a").await, Some(notice), "whoever was outrun has changed nothing");
    let second = said(given, "a", Some(first), "2").await;
    assert!(second > first);
    outrun(given, vec![gone("a", Some(first))], Vec::new(), Vec::new()).await;
    let found = read(given, "a").await.expect("it is up");
    assert_eq!((found.version, &*found.value, found.due_at, found.changed_at), (second, "2", None, at(0)));
    // Another space is another matter.
    assert_eq!(given.store.notice("alert".to_owned(), "a".to_owned()).await.unwrap(), None);
}

/// R-D3: a tick and its job are there together or not at all: of a change that was outrun there is no other change, no job and no event.
pub(crate) async fn outrun_leaves_nothing_behind(given: &Given) {
    let version = said(given, "a", None, "1").await;
    let other = said(given, "b", None, "1").await;
    let before = Hand(&*given.store).everything().await;
    let changes = vec![
        put("new", None, "3"),
        put("a", Some(version), "2"),
        gone("b", Some(other)),
        put("c", Some(7), "2"),
    ];
    let keyed = NewJob { unique_key: Some("once".to_owned()), ..job("tick") };
    outrun(given, changes, vec![job("tick"), keyed.clone()], vec![event()]).await;
    let after = Hand(&*given.store).everything().await;
    assert_eq!((before.1, before.2.len()), (after.1, after.2.len()), "neither an event nor a job");
    assert_eq!(values(given).await, ["a=1", "b=1"]);
    assert_eq!(read(given, "a").await.expect("it is up").version, version);
    let added = given.store.enqueue(at(9), vec![keyed]).await.unwrap();
    assert!(!added[0].existing, "the unique key is free");
    let worker = Hand(&*given.store).worker().await;
    assert_eq!(given.store.lease(at(9), wants(worker, &["tick"], 9)).await.unwrap().len(), 1);
}

/// R-D3: whoever is outrun does not disturb those that write in the same moment.
pub(crate) async fn outrun_hurts_no_neighbour(given: &Given) {
    let version = said(given, "a", None, "0").await;
    let mut posting = tokio::task::JoinSet::new();
    for number in 0..40 {
        let store = Arc::clone(&given.store);
        posting.spawn(async move {
            let seen = if number % 2 == 0 { Some(version + 1_000) } else { None };
            let change =
                if number % 2 == 0 { put("a", seen, "1") } else { put(&format!("n{number}"), None, "1") };
            store.post(at(1), vec![change], vec![job("tick")], vec![event()]).await.unwrap()
        });
    }
    for _ in 0..20 {
        Hand(&*given.store).add(job("other")).await;
    }
    let done = posting.join_all().await.into_iter().filter(|posted| *posted != Posted::Outrun).count();
    assert_eq!(done, 20);
    let status = given.store.status(at(1)).await.unwrap();
    let ready: Vec<_> = status.lanes.iter().map(|lane| (lane.kind.clone(), lane.ready)).collect();
    assert_eq!(ready.iter().map(|(_, ready)| ready).sum::<u64>(), 40, "{ready:?}");
}

/// Design §6: a version never returns, so that nobody takes a notice that was put up again for the one it has seen.
pub(crate) async fn a_version_never_returns(given: &Given) {
    let mut seen = BTreeSet::new();
    let mut latest = 0;
    for round in 0..4 {
        let version = said(given, "a", None, "1").await;
        assert!(seen.insert(version) && version > latest, "round {round}: {version} after {latest}");
        outrun(given, vec![gone("a", Some(latest))], Vec::new(), Vec::new()).await;
        assert_eq!(posted(given, 0, vec![gone("a", Some(version))]).await, [None]);
        assert_eq!(read(given, "a").await, None);
        outrun(given, vec![put("a", Some(version), "1")], Vec::new(), Vec::new()).await;
        latest = version;
    }
    // Taking down what is not there is no change.
    assert_eq!(posted(given, 0, vec![gone("a", None)]).await, [None]);
    // Opened again, the store goes on behind what it has given out.
    let another = given.another().await;
    let posted = another.post(at(0), vec![put("a", None, "1")], Vec::new(), Vec::new()).await.unwrap();
    assert!(matches!(posted, Posted::Done { ref versions, .. } if versions[0] > Some(latest)), "{posted:?}");
    another.close().await.unwrap();
}

/// R-P15, R-C5: what is due comes by its time, of one space alone, no more than asked for.
pub(crate) async fn the_most_urgent_come_first(given: &Given) {
    let due = |name: &str, millis| NoticeChange { due_at: Some(at(millis)), ..put(name, None, "1") };
    let other = NoticeChange { space: "alert".to_owned(), ..due("x", 1) };
    posted(given, 0, vec![due("late", 30), due("same", 20), put("never", None, "1")]).await;
    posted(given, 0, vec![due("as", 20), due("soon", 10), due("future", 41), other]).await;
    let names = async |now, limit| -> Vec<String> {
        let due = given.store.due_notices(at(now), "schedule".to_owned(), limit).await.unwrap();
        due.into_iter().map(|notice| notice.name).collect()
    };
    assert_eq!(names(40, 100).await, ["soon", "same", "as", "late"]);
    assert_eq!(names(40, 2).await, ["soon", "same"]);
    assert_eq!(names(20, 100).await, ["soon", "same", "as"]);
    assert!(names(9, 100).await.is_empty());
    // One that is said anew without a time is due no more.
    let soon = read(given, "soon").await.expect("it is up").version;
    said(given, "soon", Some(soon), "2").await;
    assert_eq!(names(40, 100).await, ["same", "as", "late"]);
}

/// R-D7: several notices change in one transaction.
pub(crate) async fn several_change_together(given: &Given) {
    let (a, b) = (said(given, "a", None, "1").await, said(given, "b", None, "1").await);
    let versions =
        posted(given, 0, vec![put("c", None, "2"), gone("a", Some(a)), put("b", Some(b), "2")]).await;
    assert_eq!(versions[1], None);
    assert_ne!(versions[0], versions[2], "each has its own");
    assert_eq!(values(given).await, ["b=2", "c=2"]);
    assert_eq!(read(given, "b").await.map(|notice| notice.version), versions[2]);
}

/// R-C5: notices are listed by name in pages, whatever is in their names.
pub(crate) async fn notices_are_listed_in_pages(given: &Given) {
    let mut names = ["B", "a", "a b", "aa", "é", "名前", "~", "a/b", "Z_"].map(str::to_owned);
    for name in &names {
        said(given, name, None, "1").await;
    }
    names.sort();
    let (mut after, mut listed) = (None, Vec::new());
    loop {
        let page = given.store.notices("schedule".to_owned(), after.clone(), 4).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 4);
        after = Some(last.name.clone());
        listed.extend(page.into_iter().map(|notice| notice.name));
    }
    assert_eq!(listed, names);
    assert!(given.store.notices("schedul".to_owned(), None, 9).await.unwrap().is_empty());
    for odd in ["", "a\0b"] {
        assert!(given.store.notices(odd.to_owned(), None, 9).await.unwrap().is_empty());
        assert!(given.store.due_notices(at(9), odd.to_owned(), 9).await.unwrap().is_empty());
        assert_eq!(read(given, odd).await, None);
    }
}

/// R-D3: jobs come with the change, each with its event; one whose unique key is taken is answered and not added.
pub(crate) async fn jobs_and_events_come_with_it(given: &Given) {
    let hand = Hand(&*given.store);
    let keyed = |key: &str| NewJob {
        queue: "q".to_owned(),
        unique_key: Some(key.to_owned()),
        caller_id: Some("nightly@1".to_owned()),
        ..job("tick")
    };
    let there = hand.add(keyed("k")).await;
    let jobs = vec![keyed("k"), job("tick"), keyed("new"), keyed("new")];
    let posted =
        given.store.post(at(5), vec![put("a", None, "1")], jobs, vec![event(), event()]).await.unwrap();
    let Posted::Done { versions, jobs } = posted else { panic!("nobody else was there") };
    assert!(versions[0].is_some());
    let (ids, existing): (Vec<JobId>, Vec<bool>) = jobs.iter().map(|job| (job.id, job.existing)).unzip();
    assert_eq!(existing, [true, false, false, true]);
    assert_eq!((ids[0], ids[3]), (there, ids[2]));
    assert_eq!(hand.types(ids[1]).await, ["job_enqueued"]);
    assert_eq!(hand.record(ids[2]).await.job.expect("it waits").caller_id.as_deref(), Some("nightly@1"));
    let types = vec!["schedule_fired".to_owned()];
    let filter = EventFilter { types, order: Order::OldestFirst, ..EventFilter::default() };
    let told = given.store.events(filter, 9).await.unwrap();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].data["name"], "nightly");
    // A job needs no notice.
    let posted = given.store.post(at(6), Vec::new(), vec![job("lone")], Vec::new()).await.unwrap();
    assert!(matches!(posted, Posted::Done { ref jobs, .. } if jobs.len() == 1), "{posted:?}");
}

/// R-D2: whoever waits for work is woken by a job that comes with a notice, as by any other; elsewhere, too.
pub(crate) async fn its_jobs_wake_who_waits(given: &Given) {
    const LONG: Duration = Duration::from_mins(1);
    let worker = Hand(&*given.store).worker().await;
    let another = given.another().await;
    for (round, store) in [&given.store, &another].into_iter().enumerate() {
        let waiting = Arc::clone(&given.store);
        let request = redrive_store::LeaseRequest { wait: LONG, ..wants(worker, &["tick"], 1) };
        let waiting = tokio::spawn(async move { waiting.lease(at(0), request).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        let change = put(&format!("a{round}"), None, "1");
        let posted = store.post(at(0), vec![change], vec![job("tick")], Vec::new()).await.unwrap();
        let Posted::Done { jobs, .. } = posted else { panic!("nobody else was there") };
        assert_eq!(waiting.await.unwrap()[0].token.job, jobs[0].id);
        assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    }
    another.close().await.unwrap();
}

/// R-D3, R-C5: of many servers that see the same tick, one fires.
pub(crate) async fn a_race_has_one_winner(given: &Given) {
    let another = given.another().await;
    let mut version = said(given, "tick", None, "0").await;
    for round in 1..6 {
        let mut racing = tokio::task::JoinSet::new();
        for number in 0..12 {
            let store = Arc::clone(if number % 2 == 0 { &given.store } else { &another });
            racing.spawn(async move {
                // One of its own, which nobody disputes, goes with it, and so do those of the rest, which they all put up.
                let mine = put(&format!("{round}-{number}"), None, "1");
                let changes =
                    vec![put(&format!("round-{round}"), None, "1"), mine, put("tick", Some(version), "1")];
                store.post(at(round), changes, vec![job("tick")], vec![event()]).await.unwrap()
            });
        }
        let mut won: Vec<_> =
            racing.join_all().await.into_iter().filter(|posted| *posted != Posted::Outrun).collect();
        let Some(Posted::Done { versions, .. }) = won.pop() else { panic!("nobody won") };
        assert!(won.is_empty(), "{won:?}");
        version = versions[2].expect("it is up");
    }
    let worker = Hand(&*given.store).worker().await;
    assert_eq!(given.store.lease(at(9), wants(worker, &["tick"], 100)).await.unwrap().len(), 5);
    let types = vec!["schedule_fired".to_owned()];
    let told = given.store.events(EventFilter { types, ..EventFilter::default() }, 100).await.unwrap();
    assert_eq!((told.len(), values(given).await.len()), (5, 11));
    another.close().await.unwrap();
}

/// Reliability row 26: what cannot be stored is refused, and nothing of it is done.
pub(crate) async fn what_cannot_be_stored_is_refused(given: &Given) {
    let refused = async |changes, jobs, events| {
        let changes: Vec<NoticeChange> = changes;
        let refused = given.store.post(at(0), changes, jobs, events).await.unwrap_err();
        let Trouble::Refused(refusal) = refused.trouble() else { panic!("{refused}") };
        refusal.clone()
    };
    let one = |change| vec![put("fine", None, "1"), change];
    for name in ["", "a\nb", &"x".repeat(256)] {
        let refusal = refused(one(put(name, None, "1")), Vec::new(), Vec::new()).await;
        assert!(matches!(refusal, Refusal::BadName { what: "name", .. }), "{refusal}");
        let change = NoticeChange { space: name.to_owned(), ..put("a", None, "1") };
        let refusal = refused(one(change), Vec::new(), Vec::new()).await;
        assert!(matches!(refusal, Refusal::BadName { what: "space", .. }), "{refusal}");
    }
    let most = format!("\"{}\"", "x".repeat(MAX_NOTICE_BYTES - 2));
    said(given, "most", None, &most).await;
    assert_eq!(read(given, "most").await.expect("it is up").value, most);
    let refusal = refused(one(put("a", None, &format!("{most} "))), Vec::new(), Vec::new()).await;
    let most = MAX_NOTICE_BYTES;
    assert_eq!(refusal, Refusal::TooLarge { what: "the notice", bytes: most + 1, most });
    let (space, name) = ("schedule".to_owned(), "a".to_owned());
    let refusal = refused(one(put("a", None, "{no")), Vec::new(), Vec::new()).await;
    assert_eq!(refusal, Refusal::NotJson { space: space.clone(), name: name.clone() });
    let twice = vec![put("a", None, "1"), gone("a", None)];
    assert_eq!(refused(twice, Vec::new(), Vec::new()).await, Refusal::ChangedTwice { space, name });
    let many = vec![job("a"); redrive_store::MAX_BATCH];
    let refusal = refused(vec![put("a", None, "1")], many, Vec::new()).await;
    assert!(matches!(refusal, Refusal::TooMany { .. }), "{refusal}");
    let bad = NewJob { priority: 101, ..job("a") };
    assert_eq!(refused(one(put("a", None, "1")), vec![bad], Vec::new()).await, Refusal::BadPriority(101));
    let bad = NewEvent { importance: Some(9), ..event() };
    assert_eq!(refused(one(put("a", None, "1")), vec![job("a")], vec![bad]).await, Refusal::BadImportance(9));
    assert_eq!(values(given).await.len(), 1);
}
