//! A store with a word of its own in every cell that people's data reaches.

use redrive_policy::Cause;
use redrive_store::{
    Claimed, Ending, Finish, GroupQuery, ImportedEvent, ItemQuery, KeyClaim, KeyQuery, LetterReason,
    NewEvent, NewItem, NewJob, NewLetter, NewTask, NextSend, NoticeChange, Output, Posted, Scrap, SendEnd,
    Store, StoredResponse, TaskEnd, TaskState, TaskStep, Timestamp,
};

use crate::given::{Hand, SECOND, at, failure};

/// A word for every door through which data comes in.
pub(crate) const WORDS: [&str; 24] = [
    "canary-payload",
    "canary-overrides",
    "canary-output",
    "canary-message",
    "canary-trace",
    "canary-hint",
    "canary-context",
    "canary-report",
    "canary-data",
    "canary-imported",
    "canary-aside",
    "canary-cancelled",
    "canary-edited",
    "canary-plan",
    "canary-far",
    "canary-because",
    "canary-escalated",
    "canary-seen",
    "canary-header",
    "canary-answer",
    "canary-unknown",
    "canary-call",
    "canary-last",
    "canary-notice",
];

/// Fills a store. Of some jobs only the story is left, of others a letter, others wait with a hint or run.
pub(crate) async fn fill(store: &dyn Store) {
    let hand = Hand(store);
    let worker = hand.worker().await;
    let new = |kind: &str| NewJob {
        overrides: Some(r#"{"note":"canary-overrides"}"#.to_owned()),
        ..NewJob::new(kind, "canary-payload".repeat(20))
    };
    let take = async |kind: &str| {
        hand.add(new(kind)).await;
        hand.take(at(0), worker, &[kind]).await.token
    };
    let output = || Output { stdout: Some("canary-output".to_owned()), stderr: None };
    let done = Ending::Succeeded {
        latency: SECOND,
        exit_code: Some(0),
        max_retries: 3,
        output: Some(Box::new(output())),
    };
    hand.done(at(0), take("done").await, done).await;
    let mut failed = failure(Cause::Network, "canary-message");
    failed.stack_trace = Some("canary-trace".to_owned());
    failed.output = output();
    // A hash in earnest; it stands in clear.
    "f00dcafe".clone_into(&mut failed.fingerprint);
    let letter = NewLetter {
        reason: LetterReason::Exhausted,
        context: serde_json::json!({ "where": "canary-context" }),
        report: serde_json::json!({ "report": "canary-report" }),
    };
    let dead = Ending::Dead { failure: failed.clone(), letter: Box::new(letter) };
    let token = take("dead").await;
    hand.done(at(0), token, dead).await;
    store.edit_payload(at(0), token.job, 0, b"canary-edited".to_vec(), "somebody".to_owned()).await.unwrap();
    let again = Ending::Retry {
        run_at: at(60_000),
        delay: SECOND,
        held_for: None,
        hint: Some("canary-hint".to_owned()),
        failure: failed,
    };
    hand.done(at(0), take("again").await, again).await;
    let running = take("running").await;
    store.cancel(at(0), running.job, "canary-cancelled".to_owned()).await.unwrap();
    let event = |word: &str| NewEvent {
        event_type: "note".to_owned(),
        source: "test".to_owned(),
        data: serde_json::json!({ "word": word }),
        tags: vec!["readable".to_owned()],
        ..NewEvent::default()
    };
    store.append(at(0), vec![event("canary-data")]).await.unwrap();
    let imported = ImportedEvent {
        event: event("canary-imported"),
        event_id: "theirs".to_owned(),
        parent_event_id: None,
        at: Timestamp::from_millis(0),
    };
    let scrap = Scrap {
        origin: "a.jsonl".to_owned(),
        line: 3,
        why: "canary-aside".to_owned(),
        text: b"canary-aside {".to_vec(),
    };
    store.import(at(0), vec![imported], vec![scrap]).await.unwrap();
    escalate(store).await;
    answer(store).await;
    send(store).await;
    post(store).await;
}

/// A key that was answered, and one of which nobody knows the outcome.
async fn answer(store: &dyn Store) {
    for key in ["answered", "unknown"] {
        let claim = KeyClaim {
            principal: "somebody".to_owned(),
            key: key.to_owned(),
            endpoint: "POST /".to_owned(),
            request_hash: "f00d".to_owned(),
            hold_for: SECOND,
            keep_for: SECOND * 600,
            rerun: false,
            job: None,
        };
        let Claimed::Taken { hold, .. } = store.claim_key(at(0), claim).await.unwrap() else {
            panic!("the key is new")
        };
        let finish = if key == "answered" {
            let headers = vec![("x-header".to_owned(), b"canary-header".to_vec())];
            let body = Some("canary-answer".repeat(20).into_bytes());
            store.complete_key(at(0), hold, StoredResponse { status: 200, headers, body }, SECOND * 600).await
        } else {
            store.give_up_key(at(0), hold, "canary-unknown".to_owned(), SECOND * 600).await
        };
        assert_eq!(finish.unwrap(), Finish::Done);
    }
}

/// A call that was sent, and is sent again.
async fn send(store: &dyn Store) {
    let call = serde_json::json!({ "body": "canary-call" });
    let (lane, key, call_hash) = ("far".to_owned(), "a call".to_owned(), "f00d".to_owned());
    store.add_item(at(0), NewItem { lane: lane.clone(), key, call, call_hash }).await.unwrap();
    assert!(store.hold_lane(at(0), lane.clone(), 1, SECOND).await.unwrap());
    let NextSend::Item(item) = store.begin_send(at(0), lane, 1).await.unwrap() else { panic!("it is there") };
    let last = Some("canary-last".to_owned());
    assert!(store.end_send(at(0), item.id, 1, SendEnd::Again(at(9)), last, Some(503)).await.unwrap());
}

/// A notice that was said anew, and one as it was put up.
async fn post(store: &dyn Store) {
    let change = |name: &str, seen| NoticeChange {
        space: "target".to_owned(),
        name: name.to_owned(),
        seen,
        value: Some(r#"{"note":"canary-notice"}"#.to_owned()),
        due_at: Some(at(0)),
    };
    let both = vec![change("host:far", None), change("queue:q", None)];
    let posted = store.post(at(0), both, Vec::new(), Vec::new()).await.unwrap();
    let Posted::Done { versions, .. } = posted else { panic!("they are new") };
    let again = vec![change("host:far", versions[0])];
    assert_ne!(store.post(at(1), again, Vec::new(), Vec::new()).await.unwrap(), Posted::Outrun);
}

/// A task that somebody was told of, and has seen.
async fn escalate(store: &dyn Store) {
    let task = NewTask {
        name: "a task".to_owned(),
        place: None,
        plan: serde_json::json!({ "input": "canary-plan" }),
        subtasks: 1,
        progress: serde_json::json!({ "so": "canary-far" }),
    };
    let task = store.start_task(at(0), task).await.unwrap();
    let end = TaskEnd {
        state: TaskState::Escalated,
        why: "canary-because".to_owned(),
        report: Some(serde_json::json!({ "report": "canary-escalated" })),
    };
    let step = TaskStep {
        task,
        version: 1,
        begin: Vec::new(),
        mark: Vec::new(),
        progress: None,
        end: Some(end),
        events: Vec::new(),
    };
    store.advance_task(at(0), step).await.unwrap().expect("the version is the right one");
    store.acknowledge(at(0), task.to_string(), Some("canary-seen".to_owned())).await.unwrap();
}

/// Everything that can be read of a store, as one text.
pub(crate) async fn told(store: &dyn Store) -> String {
    let (status, events, records, _) = Hand(store).everything().await;
    let letters = store.letters(redrive_store::LetterFilter::default(), 100).await.unwrap();
    let payloads: Vec<String> =
        letters.iter().map(|letter| String::from_utf8_lossy(&letter.payload).into_owned()).collect();
    let jobs: Vec<String> = records
        .iter()
        .filter_map(|record| record.job.as_ref())
        .map(|job| format!("{} {:?}", String::from_utf8_lossy(&job.payload), job.overrides))
        .collect();
    let groups = store.groups(GroupQuery::default(), 100).await.unwrap();
    let mut versions = Vec::new();
    for letter in &letters {
        let replaced = store.payload_versions(letter.id).await.unwrap();
        versions.extend(replaced.into_iter().map(|one| String::from_utf8_lossy(&one.payload).into_owned()));
    }
    let tasks = store.tasks(false, None, 100).await.unwrap();
    let seen = tasks.iter().map(|task| task.id.to_string()).collect();
    let seen = store.acknowledged(seen).await.unwrap();
    let mut answers = Vec::new();
    for record in store.keys(KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap() {
        let (_, answer) = store.key(record.id).await.unwrap().expect("it was listed");
        let body = answer.as_ref().and_then(|answer| answer.body.as_deref()).unwrap_or_default();
        let body = String::from_utf8_lossy(body).into_owned();
        let headers = answer.map(|answer| answer.headers).unwrap_or_default();
        let text = |(name, value): (String, Vec<u8>)| format!("{name}: {}", String::from_utf8_lossy(&value));
        let headers: Vec<String> = headers.into_iter().map(text).collect();
        answers.push(format!("{record:?} {headers:?} {body}"));
    }
    let items = store.items(ItemQuery { limit: 100, ..ItemQuery::default() }).await.unwrap();
    let notices = store.notices("target".to_owned(), None, 100).await.unwrap();
    let asides = store.asides(0, 100).await.unwrap();
    let lines: Vec<String> =
        asides.iter().map(|aside| String::from_utf8_lossy(&aside.scrap.text).into_owned()).collect();
    format!(
        "{status:?}\n{events:?}\n{records:?}\n{letters:?}\n{payloads:?}\n{jobs:?}\n{asides:?}\n{lines:?}\n{groups:?}\n{versions:?}\n{tasks:?}\n{seen:?}\n{answers:?}\n{items:?}\n{notices:?}"
    )
}
