//! Telling a person: who is told, when, and how often (R-T7, R-T8, R-T10).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{Context, EngineBuilder, Escalated, EscalationId, EscalationItem};
use redrive::{Cause, Lang, fail};
use redrive_policy::{Config, EscalationLevel, Format, ReasonType};
use redrive_store::{JobId, JobState, LetterFilter, NewJob, NewTask, TaskEnd, TaskId, TaskState, TaskStep};
use serde_json::{Value, json};

use crate::support::{World, run};

/// What was told, one slice per call.
type Heard = Arc<Mutex<Vec<Vec<Escalated>>>>;

fn listening(heard: &Heard, settings: &str) -> impl FnOnce(EngineBuilder) -> EngineBuilder {
    let heard = Arc::clone(heard);
    let config = Config::parse(settings, Format::Toml, "redrive.toml").unwrap();
    move |builder| {
        builder.config(&config).on_escalation(move |told| heard.lock().unwrap().push(told.to_vec()))
    }
}

fn ids(heard: &Heard) -> Vec<Vec<String>> {
    let calls = heard.lock().unwrap();
    calls.iter().map(|told| told.iter().map(|one| one.id.clone()).collect()).collect()
}

/// A job that fails for good, worked off by a worker of its own.
async fn fails(world: &World, cause: Cause) -> JobId {
    let job = world.engine.job("fetch", &()).source("nightly fetch").enqueue().await.unwrap().id;
    let work = world
        .worker()
        .handle("fetch", move |(): (), _cx: Context| async move { Err::<(), _>(fail(cause, "it said no")) })
        .run_until_empty();
    world.while_time_passes(Duration::from_secs(30), work).await.unwrap();
    job
}

async fn newest_letter(world: &World) -> String {
    let letters = world.engine.store().letters(LetterFilter::default(), 1).await.unwrap();
    letters[0].id.to_string()
}

/// R-T8: with `notify_immediately` a person is told at once, of a letter that is there, and once only.
#[test]
fn a_letter_is_told_once_it_is_durable() {
    run(async {
        let heard = Heard::default();
        let world = World::with(listening(&heard, ""));
        let job = fails(&world, Cause::ValidationError).await;
        assert_eq!(ids(&heard), [[job.to_string()]]);
        assert!(matches!(world.state(job).await, JobState::Dead(_)));
        let told = heard.lock().unwrap()[0][0].report.clone();
        assert_eq!(told.reason.reason_type, ReasonType::FatalError);
        assert_eq!(told.level, EscalationLevel::DataFix);
        assert!(told.user_message.starts_with("\"nightly fetch\" failed"), "{}", told.user_message);
        assert_eq!(serde_json::to_value(&told).unwrap(), world.letter(job).await.report);
        let retried = fails(&world, Cause::Network).await;
        assert_eq!(ids(&heard)[1..], [[retried.to_string()]], "four attempts, one letter, told once");
        assert_eq!(heard.lock().unwrap()[1][0].report.level, EscalationLevel::DeadLetter);
    });
}

/// R-T8: without it they are gathered, and handed over together when a minute has passed or the worker ends.
#[test]
fn without_haste_escalations_are_handed_over_together() {
    run(async {
        let heard = Heard::default();
        let world = World::with(listening(&heard, "[escalate]\nnotify_immediately = false"));
        let idle =
            world.worker().handle("idle", |(): (), _cx: Context| async { Ok::<(), redrive::Fail>(()) });
        let worker = idle.register().await.unwrap();
        let mut jobs = Vec::new();
        for _ in 0..3 {
            let failing =
                world.engine.retry("gone", || async { Err::<(), _>(fail(Cause::NotFound, "gone")) });
            failing.await.unwrap_err();
            jobs.push(newest_letter(&world).await);
        }
        assert_eq!(ids(&heard), Vec::<Vec<String>>::new(), "nobody is told yet");
        world.clock.advance(Duration::from_secs(59));
        world.engine.maintain(worker.id()).await.unwrap();
        assert_eq!(ids(&heard), Vec::<Vec<String>>::new());
        world.clock.advance(Duration::from_secs(1));
        world.engine.maintain(worker.id()).await.unwrap();
        assert_eq!(ids(&heard), [jobs.clone()]);
        let last = fails(&world, Cause::NotFound).await;
        assert_eq!(ids(&heard), [jobs, vec![last.to_string()]], "told when the worker ended");
    });
}

/// R-T8: a listener that panics is logged; the work goes on, and the next one is told.
#[test]
fn a_listener_that_panics_is_not_fatal() {
    run(async {
        let calls = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&calls);
        let world = World::with(|builder| {
            builder.lang(Lang::Ja).on_escalation(move |_| {
                *counted.lock().unwrap() += 1;
                panic!("the pager is broken");
            })
        });
        for n in 1..=2 {
            let job = fails(&world, Cause::AuthError).await;
            assert!(matches!(world.state(job).await, JobState::Dead(_)));
            assert_eq!(calls.lock().map_or_else(|error| *error.into_inner(), |calls| *calls), n);
        }
    });
}

/// A task of one subtask that ends like this at this moment.
async fn ended_task(world: &World, name: &str, state: TaskState, level: Option<u8>) -> TaskId {
    let store = world.engine.store();
    let task =
        NewTask { name: name.to_owned(), place: None, plan: json!({}), subtasks: 1, progress: Value::Null };
    let id = store.start_task(world.engine.now(), task).await.unwrap();
    let report = level.map(|level| {
        let mut report = json!({
            "task_id": id,
            "escalated_at": world.engine.now(),
            "reason": { "type": "MAX_RETRIES", "description": "Max retries (3) exceeded" },
            "failure_summary": {
                "total_attempts": 4,
                "failure_types": ["QUALITY_FAILURE"],
                "last_failure": { "type": "QUALITY_FAILURE", "message": "TODO", "timestamp": "" },
            },
            "user_message": format!("{name} cannot go on"),
            "debug_info": { "retry_history": [], "trace_file": "redrive:trace/task-1", "relevant_logs": [] },
            "recommended_actions": ["split it"],
        });
        report["level"] = level.into();
        report
    });
    let end = Some(TaskEnd { state, why: format!("{name} is over"), report });
    let step = TaskStep {
        task: id,
        version: 1,
        begin: Vec::new(),
        mark: Vec::new(),
        progress: None,
        end,
        events: Vec::new(),
    };
    store.advance_task(world.engine.now(), step).await.unwrap().expect("the version is right");
    id
}

async fn listed(world: &World, open_only: bool, page: u32) -> Vec<EscalationItem> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let found = world.engine.escalations(open_only, after, page).await.unwrap();
        items.extend(found.items);
        match found.next {
            Some(next) => after = Some(next),
            None => return items,
        }
    }
}

fn names(items: &[EscalationItem]) -> Vec<String> {
    items.iter().map(|item| item.id.to_string()).collect()
}

/// R-T7, R-T10: tasks and letters that wait for a person, the newest first, whatever the page; seen ones are apart, and one
/// that happens again after it was seen is new.
#[test]
fn escalations_are_listed_and_acknowledged() {
    run(async {
        let world = World::new();
        let mut expected = Vec::new();
        for (n, cause) in [Cause::Integrity, Cause::NotFound, Cause::Network].into_iter().enumerate() {
            expected.push(fails(&world, cause).await.to_string());
            world.clock.advance(Duration::from_secs(1));
            if n == 0 {
                expected.push(ended_task(&world, "release", TaskState::Escalated, Some(4)).await.to_string());
                ended_task(&world, "fine", TaskState::Succeeded, None).await;
                expected.push(ended_task(&world, "half", TaskState::Partial, None).await.to_string());
            }
        }
        let mut items = listed(&world, true, 100).await;
        let [letter, released, half] = [&expected[0], &expected[1], &expected[2]];
        let order = [&expected[4], &expected[3], half, released, letter].map(Clone::clone);
        assert_eq!(names(&items), order);
        for page in 1..=6 {
            assert_eq!(names(&listed(&world, true, page).await), names(&items), "{page} at a time");
        }
        items.sort_by_key(|item| expected.iter().position(|id| *id == item.id.to_string()));
        let levels: Vec<u8> = items.iter().map(|item| item.level.number()).collect();
        assert_eq!(levels, [5, 4, 3, 3, 2]);
        assert_eq!(items[1].user_message, "release cannot go on");
        assert_eq!((items[2].user_message.as_str(), items[2].report.as_ref()), ("half is over", None));
        assert_eq!(items[1].task_state, Some(TaskState::Escalated));
        assert_eq!(items[0].name, "nightly fetch");
        assert!(items[0].user_message.contains("it said no"), "{}", items[0].user_message);

        let id: EscalationId = letter.parse().unwrap();
        let note = Some("Sato is at it, password=hunter2");
        assert!(world.engine.acknowledge_escalation(id, note).await.unwrap());
        assert!(!world.engine.acknowledge_escalation("job_999".parse().unwrap(), None).await.unwrap());
        assert!(!names(&listed(&world, true, 2).await).contains(letter));
        let seen = world.engine.escalation(id).await.unwrap().expect("an escalation");
        let seen = seen.acknowledged.expect("seen");
        assert_eq!(seen.note.as_deref(), Some("Sato is at it, password=[redacted]"));
        assert_eq!(names(&listed(&world, false, 2).await).len(), 5);

        let EscalationId::Letter(job) = id else { panic!("{id} is a letter") };
        world.clock.advance(Duration::from_secs(1));
        world.engine.redrive(vec![job]).await.unwrap();
        assert_eq!(world.engine.escalation(id).await.unwrap(), None, "it is tried again");
        fails(&world, Cause::Integrity).await;
        let again = world.engine.escalation(id).await.unwrap().expect("it failed again");
        assert_eq!(again.acknowledged, None, "that was another time");
        assert!(names(&listed(&world, true, 2).await).contains(letter));
    });
}

/// R-T7: a task speaks for its subtasks; what merely has such a name speaks for itself.
#[test]
fn letters_of_subtasks_are_not_listed() {
    run(async {
        let world = World::new();
        let store = world.engine.store();
        let task = NewTask {
            name: "release".to_owned(),
            place: None,
            plan: json!({}),
            subtasks: 1,
            progress: Value::Null,
        };
        let id = store.start_task(world.engine.now(), task).await.unwrap();
        let job = NewJob::new("fetch", b"null".to_vec());
        let step = TaskStep {
            task: id,
            version: 1,
            begin: vec![(0, job)],
            mark: Vec::new(),
            progress: None,
            end: None,
            events: Vec::new(),
        };
        // Nobody moves it on any more: its job is all that is left to do.
        let end = TaskEnd { state: TaskState::Cancelled, why: "enough".to_owned(), report: None };
        let over = TaskStep { version: 2, begin: Vec::new(), end: Some(end), ..step.clone() };
        for step in [step, over] {
            store.advance_task(world.engine.now(), step).await.unwrap().expect("the version is right");
        }
        let alike = world.engine.job("fetch", &()).caller_id("task-1").enqueue().await.unwrap().id;
        let last = fails(&world, Cause::NotFound).await;
        let letters = store.letters(LetterFilter::default(), 10).await.unwrap();
        assert_eq!(letters.len(), 3);
        let mut found = names(&listed(&world, true, 10).await);
        found.sort();
        let mut expected = [alike.to_string(), last.to_string()];
        expected.sort();
        assert_eq!(found, expected);
    });
}
