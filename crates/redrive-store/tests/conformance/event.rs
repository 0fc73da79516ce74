//! The stream: what happened, in order, and findable (R-E1, R-E2, R-E3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_policy::ErrorCategory;
use redrive_store::{
    ErrorInfo, EventFilter, EventSeq, EventStatus, JobId, NewEvent, NewJob, Order, RecoveryAction, Refusal,
    RetryInfo, Store, Trouble,
};
use serde_json::{Map, json};

use crate::back_end::Given;
use crate::given::{Hand, at, job, retry, success};

fn event(event_type: &str) -> NewEvent {
    NewEvent { event_type: event_type.to_owned(), source: "test".to_owned(), ..NewEvent::default() }
}

/// R-E2
pub(crate) async fn what_was_appended_is_read_back(given: &Given) {
    let error_info = ErrorInfo {
        error_type: "Oops".to_owned(),
        error_message: "悪い".to_owned(),
        error_category: ErrorCategory::Network,
        stack_trace: Some("at line 1".to_owned()),
        more: Map::from_iter([("extra".to_owned(), json!(1))]),
    };
    let retry_info = RetryInfo {
        retry_count: 2,
        max_retries: 5,
        retryable: true,
        next_retry_at: Some(at(5_000)),
        more: Map::new(),
    };
    let action = RecoveryAction { timestamp: at(1), action: "restart".to_owned(), more: Map::new() };
    let first = given.store.append(at(0), vec![event("cause")]).await.unwrap();
    let new = NewEvent {
        data: json!({ "a": [1, null, "x"] }),
        parent: Some(first[0].0),
        related_hypothesis_id: Some("H-1".to_owned()),
        tags: vec!["red".to_owned(), "blue".to_owned()],
        latency: Some(Duration::from_millis(12)),
        exit_code: Some(3),
        importance: Some(5),
        status: Some(EventStatus::Retrying),
        error_info: Some(error_info.clone()),
        retry_info: Some(retry_info.clone()),
        recovery_actions: vec![action.clone()],
        caller_id: Some("me".to_owned()),
        ..event("full")
    };
    let (seq, id) = given.store.append(at(7), vec![new]).await.unwrap().remove(0);
    let read = given.store.event(id.clone()).await.unwrap().unwrap();
    assert_eq!((read.seq, &read.event_id, read.timestamp), (seq, &id, at(7)));
    assert_eq!((read.event_type.as_str(), read.source.as_str()), ("full", "test"));
    assert_eq!(read.data["a"], json!([1, null, "x"]));
    assert_eq!((read.parent, read.parent_event_id), (Some(first[0].0), Some(first[0].1.clone())));
    assert_eq!(read.related_hypothesis_id.as_deref(), Some("H-1"));
    assert_eq!(
        (read.tags, read.latency_ms, read.exit_code),
        (vec!["red".into(), "blue".into()], Some(12), Some(3))
    );
    assert_eq!((read.importance, read.status), (5, EventStatus::Retrying));
    assert_eq!((read.error_info, read.retry_info), (Some(error_info), Some(retry_info)));
    assert_eq!(read.recovery_actions, [action]);
    let plain = given.store.event(first[0].1.clone()).await.unwrap().unwrap();
    assert_eq!((plain.data, plain.importance, plain.status), (json!({}), 3, EventStatus::Pending));
    // The place alone is no id: the time must be right, too.
    assert_eq!(given.store.event(first[0].0.event_id(at(60_000))).await.unwrap(), None);
    assert_eq!(given.store.event("nonsense".to_owned()).await.unwrap(), None);
}

/// R-E3: exit code, then error, then retry, then pending.
pub(crate) async fn the_state_is_found_by_itself(given: &Given) {
    let error_info = Some(ErrorInfo {
        error_type: "E".to_owned(),
        error_message: "m".to_owned(),
        error_category: ErrorCategory::Unknown,
        stack_trace: None,
        more: Map::new(),
    });
    let events = vec![
        NewEvent { exit_code: Some(0), error_info: error_info.clone(), ..event("x") },
        NewEvent { exit_code: Some(1), ..event("x") },
        NewEvent { error_info, ..event("x") },
        event("x"),
    ];
    let failed = given.store.append(at(0), events).await.unwrap();
    let mut said = Vec::new();
    for (_, id) in failed {
        said.push(given.store.event(id).await.unwrap().unwrap().status);
    }
    assert_eq!(said, [EventStatus::Success, EventStatus::Failed, EventStatus::Failed, EventStatus::Pending]);
    assert_eq!(given.store.status(at(0)).await.unwrap().failed_events, 2);
}

async fn found(store: &dyn Store, filter: EventFilter) -> Vec<String> {
    store.events(filter, 99).await.unwrap().into_iter().map(|event| event.event_type).collect()
}

/// R-E3
pub(crate) async fn filters_choose(given: &Given) {
    let some = |text: &str| Some(text.to_owned());
    let with = |event_type: &str, tags: &[&str]| NewEvent {
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        ..event(event_type)
    };
    let one = NewEvent { related_hypothesis_id: some("H"), caller_id: some("me"), ..with("one", &["red"]) };
    let two = NewEvent { source: "else".to_owned(), exit_code: Some(1), ..with("two", &["blue", "red"]) };
    let three = NewEvent { status: Some(EventStatus::Retrying), ..with("three", &["green"]) };
    let mut seqs = Vec::new();
    for (now, event) in [(0, one), (10, two), (20, three)] {
        seqs.push(given.store.append(at(now), vec![event]).await.unwrap()[0].0);
    }
    let none = EventFilter::default;
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    for (filter, expected) in [
        (none(), vec!["three", "two", "one"]),
        (EventFilter { order: Order::OldestFirst, ..none() }, vec!["one", "two", "three"]),
        (EventFilter { types: list(&["one", "two", "x"]), ..none() }, vec!["two", "one"]),
        (EventFilter { source: some("else"), ..none() }, vec!["two"]),
        (
            EventFilter { statuses: vec![EventStatus::Failed, EventStatus::Retrying], ..none() },
            vec!["three", "two"],
        ),
        (
            EventFilter { statuses: vec![EventStatus::Pending, EventStatus::Failed], ..none() },
            vec!["two", "one"],
        ),
        (EventFilter { hypothesis: some("H"), ..none() }, vec!["one"]),
        (EventFilter { caller_id: some("me"), ..none() }, vec!["one"]),
        (EventFilter { tags: list(&["red", "green"]), ..none() }, vec!["three", "two", "one"]),
        (EventFilter { tags: list(&["blue"]), ..none() }, vec!["two"]),
        (EventFilter { since: Some(at(10)), ..none() }, vec!["three", "two"]),
        (EventFilter { until: Some(at(10)), ..none() }, vec!["one"]),
        (EventFilter { after: Some(seqs[0]), ..none() }, vec!["three", "two"]),
        (EventFilter { before: Some(seqs[2]), after: Some(seqs[0]), ..none() }, vec!["two"]),
        (EventFilter { types: list(&["two"]), source: some("test"), ..none() }, vec![]),
    ] {
        assert_eq!(found(&*given.store, filter.clone()).await, expected, "{filter:?}");
    }
    assert_eq!(given.store.events(none(), 1).await.unwrap()[0].event_type, "three");
}

/// R-E3: everything that is said must hold, for a job's events, too.
pub(crate) async fn job_filters_choose(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(NewJob { caller_id: Some("me".to_owned()), ..job("a") }).await;
    let leased = hand.take(at(10), worker, &["a"]).await;
    hand.done(at(20), leased.token, success()).await;
    let of_job = || EventFilter { job: Some(id), ..EventFilter::default() };
    let all = ["attempt_succeeded", "attempt_started", "job_enqueued"];
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    for (filter, expected) in [
        (of_job(), &all[..]),
        (EventFilter { since: Some(at(10)), ..of_job() }, &all[..2]),
        (EventFilter { until: Some(at(10)), ..of_job() }, &all[2..]),
        (EventFilter { types: list(&["attempt_started"]), ..of_job() }, &all[1..2]),
        (EventFilter { statuses: vec![EventStatus::Success], ..of_job() }, &all[..1]),
        (EventFilter { source: Some("a".to_owned()), ..of_job() }, &all[..]),
        (EventFilter { source: Some("b".to_owned()), ..of_job() }, &[]),
        (EventFilter { caller_id: Some("me".to_owned()), ..of_job() }, &all[..]),
        (EventFilter { caller_id: Some("you".to_owned()), ..of_job() }, &[]),
        (EventFilter { hypothesis: Some("H".to_owned()), ..of_job() }, &[]),
        (EventFilter { tags: list(&["red"]), ..of_job() }, &[]),
        (EventFilter { job: Some(JobId(404)), ..of_job() }, &[]),
    ] {
        assert_eq!(found(&*given.store, filter.clone()).await, expected, "{filter:?}");
    }
    assert_eq!(
        found(&*given.store, EventFilter { caller_id: Some("me".to_owned()), ..EventFilter::default() })
            .await,
        all
    );
}

/// R-E3
pub(crate) async fn causality_goes_back_to_the_beginning(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let root = given.store.append(at(0), vec![event("request")]).await.unwrap()[0].0;
    let id = hand.add(NewJob { parent: Some(root), ..job("a") }).await;
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(2), leased.token, retry(at(3))).await;
    let last = hand.record(id).await.event;
    let chain = given.store.causality(last, 99).await.unwrap();
    let types: Vec<_> = chain.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["request", "job_enqueued", "attempt_started", "attempt_failed"]);
    assert_eq!(hand.types(id).await.len(), 3, "the request is no event of the job");
    assert_eq!(given.store.causality(last, 2).await.unwrap().len(), 2);
    assert!(given.store.causality(EventSeq(9_999), 9).await.unwrap().is_empty());
    // An event that names itself, or one to come, leads nobody in circles.
    for ahead in [1, 1_000_000_000] {
        let parent = Some(EventSeq(last.0 + ahead));
        let told = given.store.append(at(5), vec![NewEvent { parent, ..event("loop") }]).await.unwrap();
        assert_eq!(given.store.causality(told[0].0, 99).await.unwrap().len(), 1);
    }
}

/// R-E2, reliability row 26
pub(crate) async fn bad_events_are_refused(given: &Given) {
    let hand = Hand(&*given.store);
    let before = hand.everything().await;
    let big = json!("x".repeat(1 << 20));
    for bad in [
        event(""),
        event("a\nb"),
        NewEvent { source: String::new(), ..event("x") },
        NewEvent { data: big, ..event("x") },
        NewEvent { tags: vec!["x".repeat(64); 1 << 15], ..event("x") },
        NewEvent { importance: Some(0), ..event("x") },
        NewEvent { importance: Some(6), ..event("x") },
        NewEvent { caller_id: Some("x".repeat(256)), ..event("x") },
        NewEvent { related_hypothesis_id: Some(String::new()), ..event("x") },
        NewEvent { data: (0..65).fold(json!(1), |inner, _| json!([inner])), ..event("x") },
    ] {
        let error = given.store.append(at(0), vec![event("good"), bad]).await.unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Refused(_)), "{error}");
    }
    let error = given.store.append(at(0), vec![event("x"); 10_001]).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Refused(Refusal::TooMany { .. })), "{error}");
    assert_eq!(hand.everything().await, before);
}

/// R-E4: follow live.
pub(crate) async fn a_follower_is_told(given: &Given) {
    follow(&given.store, &given.store).await;
}

/// R-E4: across processes, too.
pub(crate) async fn a_follower_elsewhere_is_told(given: &Given) {
    let another = given.another().await;
    follow(&another, &given.store).await;
    another.close().await.unwrap();
}

async fn follow(follower: &Arc<dyn Store>, writer: &Arc<dyn Store>) {
    let start = writer.append(at(0), vec![event("first")]).await.unwrap()[0].0;
    let patient = Duration::from_secs(20);
    let mut last = follower.wait_for_events(EventSeq(start.0 - 1), patient).await.unwrap();
    assert_eq!(last, start);
    for _ in 0..20 {
        let (its, after) = (Arc::clone(follower), last);
        let waiting = tokio::spawn(async move { its.wait_for_events(after, patient).await.unwrap() });
        let began = Instant::now();
        let seq = writer.append(at(1), vec![event("next")]).await.unwrap()[0].0;
        last = waiting.await.unwrap();
        assert_eq!(last, seq);
        assert!(began.elapsed() < patient / 2);
        let filter = EventFilter { after: Some(after), ..EventFilter::default() };
        assert_eq!(follower.events(filter, 9).await.unwrap().len(), 1);
    }
    let began = Instant::now();
    let wait = Duration::from_millis(30);
    assert_eq!(follower.wait_for_events(last, wait).await.unwrap(), last);
    assert!(began.elapsed() >= wait);
}

/// R-E1, R-E4: who only looks, without waiting, sees what another process wrote.
pub(crate) async fn a_look_without_waiting_sees_others(given: &Given) {
    let another = given.another().await;
    let start = given.store.append(at(0), vec![event("mine")]).await.unwrap()[0].0;
    assert_eq!(given.store.wait_for_events(start, Duration::ZERO).await.unwrap(), start);
    for _ in 0..5 {
        let seq = another.append(at(1), vec![event("theirs")]).await.unwrap()[0].0;
        assert_eq!(given.store.wait_for_events(start, Duration::ZERO).await.unwrap(), seq);
    }
    another.close().await.unwrap();
}

/// Whatever people report about a job, its own story and the checks stay as they are.
pub(crate) async fn events_about_a_job_do_not_disturb_it(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    for name in ["attempt_started", "attempt_succeeded", "note"] {
        let parent = Some(hand.record(id).await.event);
        given.store.append(at(1), vec![NewEvent { job: Some(id), parent, ..event(name) }]).await.unwrap();
    }
    hand.clean().await;
    let worker = hand.worker().await;
    let leased = hand.take(at(2), worker, &["a"]).await;
    hand.done(at(2), leased.token, success()).await;
}

/// R-E3: what people and programs say about a job is found with its story, and does not disturb it.
pub(crate) async fn events_about_a_job_are_found_with_it(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let note = |name: &str| vec![NewEvent { job: Some(id), caller_id: Some("me".into()), ..event(name) }];
    given.store.append(at(1), note("first")).await.unwrap();
    let worker = hand.worker().await;
    let leased = hand.take(at(2), worker, &["a"]).await;
    given.store.append(at(3), note("second")).await.unwrap();
    hand.done(at(4), leased.token, success()).await;
    let told = given.store.append(at(5), note("third")).await.unwrap()[0].0;
    let all = ["job_enqueued", "first", "attempt_started", "second", "attempt_succeeded", "third"];
    assert_eq!(hand.types(id).await, all);
    let newest = EventFilter { job: Some(id), ..EventFilter::default() };
    assert_eq!(given.store.events(newest, 1).await.unwrap()[0].seq, told);
    let before = EventFilter {
        job: Some(id),
        before: Some(told),
        types: vec!["second".into(), "third".into()],
        ..EventFilter::default()
    };
    assert_eq!(given.store.events(before, 9).await.unwrap().len(), 1);
    // An unknown job may be talked about, too.
    let nobody = redrive_store::JobId(404);
    given.store.append(at(6), vec![NewEvent { job: Some(nobody), ..event("rumour") }]).await.unwrap();
    assert_eq!(hand.types(nobody).await, ["rumour"]);
}
