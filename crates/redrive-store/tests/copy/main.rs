//! A living store is moved into another database: all of it, once, whenever the moving is interrupted.
#![cfg(all(feature = "sqlite", feature = "postgres"))]
// Test code outside of the test functions themselves: what goes wrong is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod board;
#[path = "../given/mod.rs"]
mod given;
mod keys;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use given::{Hand, SECOND, at, cancelled, job, released, retry, success, wants};
use redrive_policy::Cause;
use redrive_store::{
    Copied, CopyEnd, CopyOptions, CopyOutcome, CopyStep, Edited, EventSeq, GroupQuery, GroupState,
    ImportedEvent, JobId, KeyRing, LeaseRequest, MetricsQuery, NewEvent, NewJob, NewRun, NewTask, Postgres,
    PostgresOptions, Redriven, RunState, RunStep, Scrap, Sqlite, SqliteOptions, Store, StoreError,
    SubtaskState, Takes, TaskEnd, TaskState, TaskStep, Timestamp, Trouble, WorkerId, copy_store,
};
use redrive_testing::Shared;

/// Places for stores, gone with it.
struct Places {
    shared: &'static Shared,
    folder: tempfile::TempDir,
}

impl Places {
    fn new() -> Option<Places> {
        Some(Places { shared: redrive_testing::shared()?, folder: tempfile::tempdir().unwrap() })
    }

    fn file(&self, name: &str) -> CopyEnd {
        CopyEnd::Sqlite(self.folder.path().join(name))
    }

    fn database(&self) -> CopyEnd {
        let (url, schema) = (self.shared.url(), self.shared.schema());
        let mark = if url.contains('?') { '&' } else { '?' };
        CopyEnd::Postgres(format!("{url}{mark}schema={schema}"))
    }
}

async fn open(end: &CopyEnd, keys: Option<KeyRing>) -> Arc<dyn Store> {
    match end {
        CopyEnd::Sqlite(path) => {
            Arc::new(Sqlite::open(path, SqliteOptions { keys, ..SqliteOptions::default() }).unwrap())
        }
        CopyEnd::Postgres(url) => {
            let options = PostgresOptions { caller_clock: true, keys, ..PostgresOptions::default() };
            Arc::new(Postgres::open(url, options).await.unwrap())
        }
    }
}

fn moved(from: &CopyEnd, to: &CopyEnd) -> Result<Copied, StoreError> {
    copy_store(from, to, CopyOptions { wait: Duration::from_secs(5), dry_run: false }, &mut |_| {})
}

fn keyed(kind: &str, key: &str) -> NewJob {
    NewJob { unique_key: Some(key.to_owned()), ..job(kind) }
}

fn told(what: &str) -> NewEvent {
    NewEvent {
        event_type: what.to_owned(),
        source: "people".to_owned(),
        tags: vec!["one".to_owned(), "n\0ul".to_owned()],
        data: serde_json::json!({ "text": "a\0b", "list": [1, 2.5, null] }),
        ..NewEvent::default()
    }
}

/// A store with something of everything; nothing runs in it.
async fn fill(store: &dyn Store) -> Vec<JobId> {
    let hand = Hand(store);
    let worker = hand.worker().await;
    let mut ids = Vec::new();
    let bytes = NewJob { payload: vec![0, 1, 255], priority: 9, ..job("bytes") };
    ids.push(hand.add(bytes).await);
    ids.push(hand.add(NewJob { queue: "other".to_owned(), ..keyed("keyed", "k1") }).await);
    ids.push(hand.add(NewJob { run_at: Some(at(3_600_000)), ..job("later") }).await);
    ids.push(hand.add(NewJob { held_for: Some(hand.worker().await), ..job("reserved") }).await);
    ids.push(hand.letter(at(1), worker, keyed("dies", "k2"), Cause::Network).await);
    ids.push(hand.letter(at(1), worker, job("dies"), Cause::Unknown).await);
    let again = hand.letter(at(2), worker, job("again"), Cause::Network).await;
    assert_eq!(store.redrive(at(3), vec![again], "redriven").await.unwrap(), [Redriven::Ready]);
    ids.push(again);
    for (kind, ending) in
        [("succeeds", success()), ("waits", retry(at(60_000))), ("ends", cancelled()), ("back", released())]
    {
        ids.push(hand.add(NewJob { caller_id: Some(format!("caller {kind}")), ..job(kind) }).await);
        let leased = hand.take(at(4), worker, &[kind]).await;
        hand.done(at(5), leased.token, ending).await;
    }
    store.append(at(6), vec![told("noted")]).await.unwrap();
    let imported = ImportedEvent {
        event: NewEvent { tags: vec!["old".to_owned()], ..told("from_elsewhere") },
        event_id: "EVT-20251106-090000-xyz789".to_owned(),
        parent_event_id: None,
        at: at(-1_000_000),
    };
    let scrap = Scrap { origin: "log".to_owned(), line: 3, why: "no JSON".to_owned(), text: vec![0, 200] };
    assert_eq!(store.import(at(7), vec![imported], vec![scrap]).await.unwrap(), 1);
    mend(store, worker, ids[5]).await;
    plan(store).await;
    keys::guard(store).await;
    keys::send(store).await;
    board::post(store).await;
    ids
}

/// What people leave behind who mend.
async fn mend(store: &dyn Store, worker: WorkerId, letter: JobId) {
    let hand = Hand(store);
    let by = "somebody".to_owned();
    let edited = store.edit_payload(at(8), letter, 0, vec![0, 7], by.clone()).await.unwrap();
    assert_eq!(edited, Edited::Done { version: 1 });
    let print = "print of it is dead".to_owned();
    let note = Some("known".to_owned());
    store.set_group_state(at(8), print, GroupState::Acknowledged, note).await.unwrap().expect("a group");
    let judged = hand.letter(at(8), worker, job("judged"), Cause::Network).await;
    let new = NewRun { wanted_by: by, plan: serde_json::json!({ "a": 1 }), progress: serde_json::json!(0) };
    let run = store.start_run(at(8), new).await.unwrap();
    let step = RunStep {
        run,
        version: 1,
        ids: vec![judged],
        judged_in: Some(1),
        progress: serde_json::json!(1),
        state: RunState::Running,
        why: None,
    };
    assert_eq!(store.advance_run(at(8), step).await.unwrap().unwrap().redriven, [Redriven::Ready]);
    assert!(store.pause_queue(at(9), "paused".to_owned(), Some("a pause".to_owned())).await.unwrap());
    let takes = Takes { queues: vec!["a".to_owned()], kinds: Vec::new() };
    store.takes(worker, takes).await.unwrap();
}

fn a_task() -> NewTask {
    NewTask {
        name: "a task".to_owned(),
        place: Some("a place".to_owned()),
        plan: serde_json::json!({ "input": "a\0b" }),
        subtasks: 4,
        progress: serde_json::json!({ "round": 0 }),
    }
}

/// A task that goes on, and one that somebody was told of and has seen.
async fn plan(store: &dyn Store) {
    for is_over in [false, true] {
        let task = store.start_task(at(9), a_task()).await.unwrap();
        let begin = vec![(0, job("subtask")), (2, job("subtask"))];
        let mark = vec![(1, SubtaskState::Skipped)];
        let first =
            TaskStep { task, version: 1, begin, mark, progress: None, end: None, events: vec![told("step")] };
        store.advance_task(at(9), first).await.unwrap().expect("the first step");
        let report = Some(serde_json::json!({ "level": 3 }));
        let end = TaskEnd { state: TaskState::Escalated, why: "stuck".to_owned(), report };
        let (mark, progress) = (vec![(0, SubtaskState::Failed)], Some(serde_json::json!(1)));
        let (begin, events, end) = (Vec::new(), Vec::new(), is_over.then_some(end));
        let second = TaskStep { task, version: 2, begin, mark, progress, end, events };
        store.advance_task(at(10), second).await.unwrap().expect("the second step");
        if is_over {
            store.acknowledge(at(11), task.to_string(), Some("seen".to_owned())).await.unwrap();
        } else {
            assert!(store.hold_task(at(11), task, 7, SECOND).await.unwrap().is_some());
        }
    }
}

/// What cannot be kept in another database as it is: a NUL becomes the sign for one.
fn without_nul(text: &str) -> String {
    text.replace("\\u0000", "␀").replace("\\0", "␀")
}

async fn seen(store: &dyn Store) -> String {
    let (status, events, records, letters) = Hand(store).everything().await;
    let asides = store.asides(0, 10).await.unwrap();
    let workers = store.workers(at(0)).await.unwrap();
    let mut records = records;
    records.sort_by_key(|record| record.id);
    let groups = store.groups(GroupQuery::default(), 10).await.unwrap();
    let queues = store.queues().await.unwrap();
    let runs = store.runs(false, 10).await.unwrap();
    let mut mended = Vec::new();
    for run in &runs {
        mended.push(format!("{:#?}", store.judged(run.id, None).await.unwrap()));
    }
    for record in &records {
        mended.push(format!("{:#?}", store.payload_versions(record.id).await.unwrap()));
    }
    let tasks = store.tasks(false, None, 10).await.unwrap();
    assert_eq!(tasks.len(), 2);
    for task in &tasks {
        mended.push(format!("{:#?}", store.subtasks(task.id).await.unwrap()));
        mended.push(format!("{:#?}", store.begun(task.id).await.unwrap()));
        mended.push(format!("{:#?}", store.acknowledged(vec![task.id.to_string()]).await.unwrap()));
    }
    mended.extend(keys::seen(store).await);
    mended.extend(board::seen(store).await);
    let query = MetricsQuery { to_hour: i64::MAX, by_hour: true, by_queue: true, ..MetricsQuery::default() };
    let metrics = store.metrics(query).await.unwrap();
    assert!(!groups.is_empty() && !runs.is_empty() && metrics.len() > 5, "next to nothing was mended");
    without_nul(&format!(
        "{status:#?} {events:#?} {records:#?} {letters} {asides:#?} {workers:#?} {groups:#?} {queues:#?} {runs:#?} \
         {mended:#?} {metrics:#?} {tasks:#?}"
    ))
}

/// Everything is there as it was, and goes on; the original says where it went.
async fn moves_whole(from: &CopyEnd, to: &CopyEnd) {
    let original = open(from, None).await;
    let ids = fill(&*original).await;
    let (before, store_id) = (seen(&*original).await, original.store_id());
    let last = original.wait_for_events(EventSeq(0), Duration::ZERO).await.unwrap();
    let possible =
        copy_store(from, to, CopyOptions { dry_run: true, ..CopyOptions::default() }, &mut |_| {}).unwrap();
    assert_eq!(possible.outcome, CopyOutcome::Possible);
    let mut steps = Vec::new();
    let options = CopyOptions { wait: SECOND, dry_run: false };
    let copied = copy_store(from, to, options, &mut |step| steps.push(step)).unwrap();
    assert_eq!((copied.outcome, &copied.rows), (CopyOutcome::Moved, &possible.rows));
    let jobs = copied.rows.iter().find(|(table, _)| *table == "job").unwrap().1;
    assert!(steps.contains(&CopyStep::Copying { table: "job", rows: jobs }), "{steps:?}");

    // Whoever has it open, and whoever opens it now, hears where it is; reading goes on.
    for store in [Arc::clone(&original), open(from, None).await] {
        let refused = store.enqueue(at(9), vec![job("bytes")]).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Moved(to) if *to == copied.to), "{refused}");
        let refused = store.register(at(9), "w".to_owned(), SECOND).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Moved(_)), "{refused}");
        keys::are_refused(&*store).await;
        board::is_refused(&*store).await;
        assert_eq!(seen(&*store).await, before);
        store.close().await.unwrap();
    }
    assert_eq!(moved(from, to).unwrap().outcome, CopyOutcome::Before);

    let copy = open(to, None).await;
    assert_eq!(seen(&*copy).await, before);
    assert_eq!(copy.store_id(), store_id, "keys for the outside world are made of it");
    let hand = Hand(&*copy);
    hand.clean().await;
    // Numbers go on behind those that came; keys and reservations hold; what waited is worked on.
    let taken = copy.enqueue(at(9), vec![NewJob { queue: "other".to_owned(), ..keyed("keyed", "k1") }]).await;
    assert_eq!(taken.unwrap()[0].id, ids[1]);
    let fresh = hand.add(keyed("dies", "k2")).await;
    assert!(ids.iter().all(|id| fresh > *id));
    assert_eq!(
        copy.redrive(at(9), vec![ids[4], ids[5]], "redriven").await.unwrap(),
        [Redriven::Duplicate { of: fresh }, Redriven::Ready]
    );
    let next = copy.start_task(at(9), a_task()).await.unwrap();
    let tasks = copy.tasks(false, Some("a place"), 10).await.unwrap();
    assert_eq!((tasks.len(), tasks[0].id), (3, next));
    copy.acknowledge(at(9), next.to_string(), None).await.unwrap();
    keys::go_on(&*copy).await;
    board::goes_on(&*copy).await;
    let noted = copy.append(at(9), vec![told("after")]).await.unwrap()[0].0;
    assert!(noted > last);
    let worker = hand.worker().await;
    assert!(worker > WorkerId(1));
    let kinds = ["bytes", "keyed", "dies", "again", "back"];
    let leased = copy.lease(at(10), wants(worker, &kinds, 100)).await.unwrap();
    assert_eq!(leased.iter().map(|leased| &*leased.job.kind).collect::<Vec<_>>()[0], "bytes");
    assert_eq!(leased.len(), 6);
    for leased in leased {
        hand.done(at(11), leased.token, success()).await;
    }
    hand.clean().await;
    copy.close().await.unwrap();
}

/// R-D1, R-D8, R-I8: from a file into a database.
#[tokio::test]
async fn a_file_moves_into_a_database() {
    let Some(places) = Places::new() else { return };
    moves_whole(&places.file("a.db"), &places.database()).await;
}

/// R-D1, R-D8, R-I8: and the other way.
#[tokio::test]
async fn a_database_moves_into_a_file() {
    let Some(places) = Places::new() else { return };
    moves_whole(&places.database(), &places.file("b.db")).await;
}

/// R-D1, R-I8: and from one database into another. Whoever had that open before hears that it is another store now, and
/// makes no keys for the outside world from the number of the one that was there.
#[tokio::test]
async fn a_database_moves_into_one_that_others_wait_at() {
    let Some(places) = Places::new() else { return };
    for (from, to) in [(places.database(), places.database()), (places.database(), places.file("k.db"))] {
        let early = open(&to, None).await;
        early.register(at(0), "early".to_owned(), SECOND * 600).await.unwrap();
        moves_whole(&from, &to).await;
        let refused = early.enqueue(at(20), vec![job("bytes")]).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Replaced), "{refused}");
        early.close().await.unwrap();
        let late = open(&to, None).await;
        Hand(&*late).add(job("bytes")).await;
        Hand(&*late).clean().await;
        late.close().await.unwrap();
    }
}

/// Whether it can be written to; nothing is left of trying.
async fn takes_writes(store: &dyn Store) -> bool {
    let Ok(worker) = store.register(at(8), "nobody".to_owned(), SECOND).await else { return false };
    store.unregister(at(8), worker).await.is_ok()
}

/// Reliability row 36: broken off at any step, there is one store that takes writes, with everything in it; running it
/// again finishes.
#[tokio::test]
async fn broken_off_anywhere_there_is_one_store() {
    let Some(places) = Places::new() else { return };
    for (from, to) in [(places.file("c.db"), places.database()), (places.database(), places.file("d.db"))] {
        let original = open(&from, None).await;
        fill(&*original).await;
        let before = seen(&*original).await;
        let mut finished = None;
        for broken_at in 0..100 {
            let mut left = broken_at;
            let options = CopyOptions { wait: SECOND, dry_run: false };
            let outcome = copy_store(&from, &to, options, &mut |_| {
                assert!(left > 0, "broken off on purpose");
                left -= 1;
            });
            if let Ok(copied) = outcome {
                finished = Some((broken_at, copied.outcome));
                break;
            }
            let copy = open(&to, None).await;
            let is_copy = copy.store_id() == original.store_id();
            assert!(
                !(takes_writes(&*original).await && is_copy && takes_writes(&*copy).await),
                "two stores after {broken_at} steps"
            );
            copy.close().await.unwrap();
        }
        let (steps, outcome) = finished.expect("it never finished");
        assert!(steps > 20 && outcome == CopyOutcome::Finished, "{steps} {outcome:?}");
        let copy = open(&to, None).await;
        assert_eq!(seen(&*copy).await, before);
        Hand(&*copy).clean().await;
        Hand(&*copy).add(job("a")).await;
        assert!(original.enqueue(at(9), vec![job("a")]).await.is_err());
        copy.close().await.unwrap();
        original.close().await.unwrap();
    }
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// R-D2: running work is waited for, and no more is handed out meanwhile; when it does not end, nothing has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_work_is_waited_for() {
    let Some(places) = Places::new() else { return };
    for (from, to) in [(places.file("e.db"), places.database()), (places.database(), places.file("f.db"))] {
        let original = open(&from, None).await;
        let worker = original.register(now(), "w".to_owned(), SECOND * 600).await.unwrap();
        original.enqueue(now(), vec![job("a"); 3]).await.unwrap();
        let running = original.lease(now(), wants(worker, &["a"], 1)).await.unwrap();

        let (one, other) = (from.clone(), to.clone());
        let short = CopyOptions { wait: Duration::from_millis(300), dry_run: false };
        let refused = tokio::task::spawn_blocking(move || copy_store(&one, &other, short, &mut |_| {}));
        let refused = refused.await.unwrap().unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::StillRunning { leases: 1, .. }), "{refused}");
        let more = original.lease(now(), wants(worker, &["a"], 1)).await.unwrap();
        assert_eq!(more.len(), 1, "it goes on as before");

        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let (one, other) = (from.clone(), to.clone());
        let long = CopyOptions { wait: Duration::from_secs(20), dry_run: false };
        let moving = tokio::task::spawn_blocking(move || {
            copy_store(&one, &other, long, &mut |step| told.send(step).unwrap())
        });
        assert_eq!(heard.recv().await, Some(CopyStep::Draining { leases: 2 }));
        let patient = LeaseRequest { wait: Duration::from_millis(100), ..wants(worker, &["a"], 9) };
        assert!(original.lease(now(), patient.clone()).await.unwrap().is_empty(), "no more is handed out");
        original.enqueue(now(), vec![job("a")]).await.unwrap();
        assert!(original.lease(now(), patient).await.unwrap().is_empty(), "not even what is new");
        for leased in running.iter().chain(&more) {
            Hand(&*original).done(now(), leased.token, success()).await;
        }
        assert_eq!(moving.await.unwrap().unwrap().outcome, CopyOutcome::Moved);
        let copy = open(&to, None).await;
        let left = copy.lease(now(), wants(worker, &["a"], 9)).await.unwrap();
        assert_eq!(left.len(), 2);
        copy.close().await.unwrap();
        original.close().await.unwrap();
    }
}

/// R-D1: nothing is mixed with what is there.
#[tokio::test]
async fn what_is_not_empty_is_refused() {
    let Some(places) = Places::new() else { return };
    let (from, to) = (places.file("g.db"), places.database());
    for end in [&from, &to] {
        let store = open(end, None).await;
        Hand(&*store).add(job("a")).await;
        store.close().await.unwrap();
    }
    let refused = moved(&from, &to).unwrap_err();
    assert!(matches!(refused.trouble(), Trouble::NotEmpty(_)), "{refused}");
    assert!(!refused.to_string().contains("password"), "{refused}");
    let missing = moved(&places.file("nowhere.db"), &places.file("h.db")).unwrap_err();
    assert!(matches!(missing.trouble(), Trouble::Missing(_)), "{missing}");
    let store = open(&from, None).await;
    Hand(&*store).add(job("a")).await;
    store.close().await.unwrap();
}

/// R-D7: sealed values go over sealed, no key is needed to move them, and the same key opens them.
#[tokio::test]
async fn sealed_values_stay_sealed() {
    let Some(places) = Places::new() else { return };
    let line = KeyRing::generate("one").unwrap();
    let keys = || Some(KeyRing::parse("test", &line).unwrap());
    let (first, second, third) = (places.file("i.db"), places.database(), places.file("j.db"));
    let original = open(&first, keys()).await;
    fill(&*original).await;
    let before = seen(&*original).await;
    original.close().await.unwrap();
    for (from, to) in [(&first, &second), (&second, &third)] {
        assert_eq!(moved(from, to).unwrap().outcome, CopyOutcome::Moved);
        let copy = open(to, keys()).await;
        assert_eq!(seen(&*copy).await, before);
        Hand(&*copy).clean().await;
        copy.close().await.unwrap();
    }
    let refused = Sqlite::open(Path::new(&places.folder.path().join("j.db")), SqliteOptions::default());
    assert!(matches!(refused.unwrap_err().trouble(), Trouble::KeyMissing { .. }));
}

/// R-D1: a backup of a database is a file that is a store by itself, and the database goes on.
#[tokio::test]
async fn a_backup_of_a_database_is_a_store() {
    let Some(places) = Places::new() else { return };
    let from = places.database();
    let original = open(&from, None).await;
    fill(&*original).await;
    let worker = Hand(&*original).worker().await;
    Hand(&*original).take(at(10), worker, &["bytes"]).await;
    let before = seen(&*original).await;
    let file = places.folder.path().join("backup.db");
    original.backup(&file).await.unwrap();
    assert!(original.backup(&file).await.is_err(), "never over something else");
    Hand(&*original).add(job("a")).await;
    let copy = open(&CopyEnd::Sqlite(file), None).await;
    assert_eq!(seen(&*copy).await, before);
    Hand(&*copy).clean().await;
    Hand(&*copy).add(job("a")).await;
    copy.close().await.unwrap();
    original.close().await.unwrap();
}
