//! Tasks of dependent subtasks: a step is written with the jobs that it begins, by one who knows the version (R-T1), and an
//! escalation that somebody has seen is known to be seen (R-T7).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    Begun, Event, EventFilter, EventSeq, EventStatus, JobId, JobStanding, JobState, NewEvent, NewJob,
    NewTask, Order, Redriven, Refusal, StoreError, Subtask, SubtaskState, Task, TaskEnd, TaskId, TaskState,
    TaskStep, TaskStepped, Trouble,
};
use serde_json::{Value, json};

use crate::back_end::Given;
use crate::given::{Hand, at, cancelled, dead, job, retry, success, wants};

pub(crate) fn new_task(place: Option<&str>, subtasks: u32) -> NewTask {
    NewTask {
        name: "build".to_owned(),
        place: place.map(str::to_owned),
        plan: json!({ "subtasks": ["a", "b"], "input": "\u{0} verbatim" }),
        subtasks,
        progress: json!({ "round": 0 }),
    }
}

async fn started(given: &Given, subtasks: u32) -> TaskId {
    given.store.start_task(at(0), new_task(None, subtasks)).await.unwrap()
}

/// A step that does nothing but count.
pub(crate) fn step(task: TaskId, version: i64) -> TaskStep {
    TaskStep {
        task,
        version,
        begin: Vec::new(),
        mark: Vec::new(),
        progress: None,
        end: None,
        events: Vec::new(),
    }
}

fn ends(task: TaskId, version: i64, state: TaskState) -> TaskStep {
    let end = TaskEnd { state, why: "enough".to_owned(), report: None };
    TaskStep { end: Some(end), ..step(task, version) }
}

fn reported(event_type: &str) -> NewEvent {
    let data = json!({ "said": event_type });
    NewEvent { event_type: event_type.to_owned(), source: "engine".to_owned(), data, ..NewEvent::default() }
}

pub(crate) async fn read(given: &Given, id: TaskId) -> Task {
    given.store.task(id).await.unwrap().expect("there is such a task")
}

/// Goes on, and it must hold.
async fn advanced(given: &Given, now: i64, step: TaskStep) -> TaskStepped {
    given.store.advance_task(at(now), step).await.unwrap().expect("the version is the right one")
}

/// Begins these subtasks as jobs of the kind `a`.
async fn begin(given: &Given, task: TaskId, version: i64, numbers: &[u32]) -> TaskStepped {
    let begin = numbers.iter().map(|number| (*number, job("a"))).collect();
    advanced(given, 1, TaskStep { begin, ..step(task, version) }).await
}

/// The events of a task, the oldest first.
async fn told(given: &Given, task: TaskId) -> Vec<Event> {
    let filter = EventFilter {
        caller_id: Some(task.to_string()),
        order: Order::OldestFirst,
        ..EventFilter::default()
    };
    given.store.events(filter, 100).await.unwrap()
}

fn types(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.event_type.as_str()).collect()
}

pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Refusal {
    match answer.unwrap_err().trouble() {
        Trouble::Refused(refusal) => refusal.clone(),
        other => panic!("refused, not {other}"),
    }
}

/// R-T1: what a task is stands in the store, for whoever comes after.
pub(crate) async fn a_task_is_read_back(given: &Given) {
    let id = given.store.start_task(at(3), new_task(Some("plan.toml"), 2)).await.unwrap();
    let task = read(given, id).await;
    let events = told(given, id).await;
    let expected = Task {
        id,
        created_at: at(3),
        name: "build".to_owned(),
        place: Some("plan.toml".to_owned()),
        plan: json!({ "subtasks": ["a", "b"], "input": "\u{0} verbatim" }),
        subtasks: 2,
        counts: [2, 0, 0, 0, 0, 0],
        progress: json!({ "round": 0 }),
        state: TaskState::Running,
        why: None,
        report: None,
        version: 1,
        held_until: None,
        ended_at: None,
        event: events[0].seq,
    };
    assert_eq!(task, expected);
    assert_eq!(types(&events), ["task_started"]);
    assert_eq!((&events[0].data["task_id"], &events[0].data["subtasks"]), (&json!(id), &json!(2)));
    assert_eq!(events[0].data.get("plan"), None, "inputs are not told");
    assert_eq!(given.store.subtasks(id).await.unwrap(), []);
    assert_eq!(given.store.begun(id).await.unwrap(), []);
    assert_eq!(given.store.task(TaskId(9_999)).await.unwrap(), None);
    assert_eq!(given.store.advance_task(at(3), step(TaskId(9_999), 1)).await.unwrap(), None);
}

/// R-T1: the newest task of a place is what a person means by it, and those that go on are found among all.
pub(crate) async fn tasks_are_found_by_place(given: &Given) {
    let mut ids = Vec::new();
    for place in [Some("one"), Some("two"), Some("one"), None] {
        ids.push(given.store.start_task(at(0), new_task(place, 1)).await.unwrap());
    }
    advanced(given, 1, ends(ids[2], 1, TaskState::Partial)).await;
    let found = async |open_only, place, limit| {
        let tasks = given.store.tasks(open_only, place, limit).await.unwrap();
        tasks.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(found(false, None, 10).await, [ids[3], ids[2], ids[1], ids[0]]);
    assert_eq!(found(false, None, 2).await, [ids[3], ids[2]]);
    assert_eq!(found(true, None, 10).await, [ids[3], ids[1], ids[0]]);
    assert_eq!(found(false, Some("one"), 10).await, [ids[2], ids[0]]);
    assert_eq!(found(false, Some("one"), 1).await, [ids[2]]);
    assert_eq!(found(true, Some("one"), 10).await, [ids[0]]);
    assert_eq!(found(false, Some("nowhere"), 10).await, []);
}

/// R-T1: what a step begins is enqueued with it, is the task's, and is counted.
pub(crate) async fn a_step_begins_jobs(given: &Given) {
    let hand = Hand(&*given.store);
    let id = started(given, 3).await;
    let first = read(given, id).await;
    let later = NewJob { run_at: Some(at(60_000)), caller_id: Some("mine".to_owned()), ..job("b") };
    let begin = vec![(2, later), (0, job("a"))];
    let progress = Some(json!({ "round": 1 }));
    let stepped = advanced(given, 5, TaskStep { begin, progress, ..step(id, 1) }).await;
    assert_eq!((stepped.version, stepped.jobs.len()), (2, 2));
    let [later, now] = [stepped.jobs[0], stepped.jobs[1]];
    let record = hand.record(now).await;
    assert_eq!(record.state, JobState::Ready { run_at: at(5), held_for: None });
    assert_eq!(record.job.unwrap().caller_id, Some(id.to_string()));
    assert_eq!(hand.record(later).await.job.unwrap().caller_id.as_deref(), Some("mine"));
    let task = read(given, id).await;
    assert_eq!((task.counts, task.version, task.progress), ([1, 2, 0, 0, 0, 0], 2, json!({ "round": 1 })));
    assert_eq!(task.event, first.event, "nothing was told of the task itself");
    let events = told(given, id).await;
    assert_eq!(types(&events), ["task_started", "job_enqueued"]);
    assert_eq!(events[1].parent, Some(first.event), "the task led to it");
    let row = |number, job| Subtask {
        number,
        state: SubtaskState::Started,
        job: Some(job),
        rounds: 1,
        started_at: Some(at(5)),
        ended_at: None,
    };
    assert_eq!(given.store.subtasks(id).await.unwrap(), [row(0, now), row(2, later)]);
    assert_eq!(given.store.subtask_of(now).await.unwrap(), Some((id, 0)));
    assert_eq!(given.store.subtask_of(later).await.unwrap(), Some((id, 2)));
    assert_eq!(given.store.subtask_of(JobId(9_999)).await.unwrap(), None);
    let lanes = given.store.status(at(5)).await.unwrap();
    assert_eq!(lanes.lanes.iter().map(|lane| lane.ready).sum::<u64>(), 2);
    // Progress that is not said stays, and who comes for work finds it.
    advanced(given, 6, step(id, 2)).await;
    assert_eq!(read(given, id).await.progress, json!({ "round": 1 }));
    let worker = hand.worker().await;
    assert_eq!(hand.take(at(6), worker, &["a"]).await.token.job, now);
}

/// R-T1: what waits for work gets a subtask at once, as it gets any job.
pub(crate) async fn who_waits_gets_what_begins(given: &Given) {
    let worker = Hand(&*given.store).worker().await;
    let id = started(given, 1).await;
    let request = redrive_store::LeaseRequest { wait: Duration::from_secs(20), ..wants(worker, &["a"], 1) };
    let (leased, stepped) = tokio::join!(given.store.lease(at(0), request), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        begin(given, id, 1, &[0]).await
    });
    assert_eq!(leased.unwrap()[0].token.job, stepped.jobs[0]);
}

/// R-T1: a key that unfinished work has answers that work, and only this worker gets what is held for it.
pub(crate) async fn what_begins_is_enqueued_as_anything(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let unique = NewJob { unique_key: Some("once".to_owned()), ..job("a") };
    let first = hand.add(unique.clone()).await;
    let id = started(given, 4).await;
    let held = NewJob { held_for: Some(worker), ..job("h") };
    let begin = vec![(0, unique.clone()), (1, held), (2, unique), (3, job("a"))];
    let stepped = advanced(given, 1, TaskStep { begin, ..step(id, 1) }).await;
    assert_eq!((stepped.jobs[0], stepped.jobs[2]), (first, first));
    let record = hand.record(stepped.jobs[1]).await;
    assert_eq!(record.state, JobState::Ready { run_at: at(1), held_for: Some(worker) });
    assert!(stepped.jobs[3] > first);
    assert_eq!(read(given, id).await.counts, [0, 4, 0, 0, 0, 0]);
    assert_eq!(given.store.begun(id).await.unwrap().len(), 4);
}

/// R-T1: a step is done by one who knows the version, whole or not at all.
pub(crate) async fn a_step_counts_for_who_knows_the_version(given: &Given) {
    let id = started(given, 2).await;
    begin(given, id, 1, &[0]).await;
    let before = (read(given, id).await, Hand(&*given.store).everything().await);
    let late = TaskStep {
        begin: vec![(1, job("a"))],
        mark: vec![(0, SubtaskState::Succeeded)],
        progress: Some(json!("late")),
        end: Some(TaskEnd { state: TaskState::Succeeded, why: String::new(), report: None }),
        events: vec![reported("late")],
        ..step(id, 1)
    };
    assert_eq!(given.store.advance_task(at(9), late.clone()).await.unwrap(), None);
    assert_eq!(given.store.advance_task(at(9), TaskStep { version: 3, ..late }).await.unwrap(), None);
    assert_eq!((read(given, id).await, Hand(&*given.store).everything().await), before);
    // What is refused half-way leaves nothing behind, either.
    let bad = TaskStep { begin: vec![(1, job("a")), (2, job("a"))], ..step(id, 2) };
    let refused = refusal(given.store.advance_task(at(9), bad).await);
    assert_eq!(refused, Refusal::NoSuchSubtask { number: 2, subtasks: 2 });
    let never = TaskStep { mark: vec![(1, SubtaskState::Started)], ..step(id, 2) };
    assert_eq!(refusal(given.store.advance_task(at(9), never).await), Refusal::NothingBegun(1));
    assert_eq!((read(given, id).await, Hand(&*given.store).everything().await), before);
}

/// R-T1: whoever thought out the same step at the same time, one of them does it, and its jobs are there once.
pub(crate) async fn a_race_has_one_winner(given: &Given) {
    let id = started(given, 3).await;
    let other = given.another().await;
    for (round, number) in [(1, 0), (2, 1), (3, 2)] {
        let wish =
            TaskStep { begin: vec![(number, job("a"))], events: vec![reported("chosen")], ..step(id, round) };
        let (one, two) = tokio::join!(
            given.store.advance_task(at(5), wish.clone()),
            other.advance_task(at(5), wish.clone())
        );
        let done: Vec<TaskStepped> = [one.unwrap(), two.unwrap()].into_iter().flatten().collect();
        assert_eq!((done.len(), done[0].version), (1, round + 1));
    }
    let events = told(given, id).await;
    assert_eq!(types(&events).iter().filter(|name| **name == "job_enqueued").count(), 3);
    assert_eq!(types(&events).iter().filter(|name| **name == "chosen").count(), 3);
    assert_eq!(read(given, id).await.counts, [0, 3, 0, 0, 0, 0]);
    other.close().await.unwrap();
}

/// R-T1: one moves a task on; others may when its time is over. One that is over is nobody's.
pub(crate) async fn one_holds_a_task(given: &Given) {
    let id = started(given, 1).await;
    let hold = async |now, holder| {
        given.store.hold_task(at(now), id, holder, Duration::from_secs(10)).await.unwrap()
    };
    let first = hold(0, 7).await.expect("nobody has it");
    assert_eq!((first.held_until, first.plan), (Some(at(10_000)), new_task(None, 1).plan));
    assert_eq!(hold(5_000, 8).await, None);
    let again = hold(5_000, 7).await.expect("it is ours");
    assert_eq!((again.held_until, again.version), (Some(at(15_000)), 1));
    assert_eq!(hold(14_999, 8).await, None);
    assert!(hold(15_000, 8).await.is_some());
    advanced(given, 15_001, step(id, 1)).await;
    assert_eq!(read(given, id).await.held_until, Some(at(25_000)), "a step changes nothing about that");
    advanced(given, 15_002, ends(id, 2, TaskState::Succeeded)).await;
    assert_eq!(read(given, id).await.held_until, None);
    assert_eq!(hold(15_003, 8).await, None);
    assert!(given.store.hold_task(at(0), TaskId(9_999), 1, Duration::ZERO).await.unwrap().is_none());
    let other = given.another().await;
    let id = started(given, 1).await;
    let (one, two) = tokio::join!(
        given.store.hold_task(at(0), id, 1, Duration::from_secs(10)),
        other.hold_task(at(0), id, 2, Duration::from_secs(10)),
    );
    assert_eq!([one.unwrap(), two.unwrap()].iter().flatten().count(), 1);
    other.close().await.unwrap();
    // Whoever held it for days had another clock.
    let id = started(given, 1).await;
    let ahead = at(5 * 24 * 3_600_000);
    assert!(given.store.hold_task(ahead, id, 1, Duration::from_secs(10)).await.unwrap().is_some());
    assert!(given.store.hold_task(at(1), id, 2, Duration::from_secs(10)).await.unwrap().is_some());
}

/// R-T1: how each job stands is looked up where jobs are; what is marked over is not looked at.
pub(crate) async fn begun_tells_each_standing(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = started(given, 9).await;
    let kinds = ["due", "retried", "leased", "dead", "done", "cancelled", "discarded", "over", "redriven"];
    let begin = (0..).zip(kinds.map(job)).collect();
    let jobs = advanced(given, 1, TaskStep { begin, ..step(id, 1) }).await.jobs;
    let end = async |kind: &str, ending| {
        let leased = hand.take(at(2), worker, &[kind]).await;
        hand.done(at(3), leased.token, ending).await;
    };
    end("retried", retry(at(9_000))).await;
    hand.take(at(2), worker, &["leased"]).await;
    end("dead", dead(Cause::Network, "no")).await;
    end("done", success()).await;
    end("cancelled", cancelled()).await;
    end("discarded", dead(Cause::Network, "no")).await;
    given.store.discard(at(4), vec![jobs[6]], "letter_discarded", None).await.unwrap();
    end("redriven", dead(Cause::Network, "no")).await;
    assert_eq!(given.store.redrive(at(5), vec![jobs[8]], "redrive").await.unwrap(), [Redriven::Ready]);
    advanced(given, 6, TaskStep { mark: vec![(7, SubtaskState::Succeeded)], ..step(id, 2) }).await;
    let found = given.store.begun(id).await.unwrap();
    let standings = [
        JobStanding::Ready { attempts: 0, run_at: at(1) },
        JobStanding::Ready { attempts: 1, run_at: at(9_000) },
        JobStanding::Leased { attempt: 1 },
        JobStanding::Dead,
        JobStanding::Succeeded,
        JobStanding::Cancelled,
        JobStanding::Cancelled,
        JobStanding::Ready { attempts: 0, run_at: at(5) },
    ];
    let numbers = [0, 1, 2, 3, 4, 5, 6, 8];
    let expected: Vec<Begun> = numbers
        .into_iter()
        .zip(standings)
        .map(|(number, standing)| Begun { number, job: jobs[number as usize], standing })
        .collect();
    assert_eq!(found, expected);
    // The second attempt is the second, begun or not.
    let unbegun = redrive_store::LeaseRequest { begin: false, ..wants(worker, &["retried"], 1) };
    let token = given.store.lease(at(9_000), unbegun).await.unwrap()[0].token;
    let standing = async || given.store.begun(id).await.unwrap()[1].standing;
    assert_eq!(standing().await, JobStanding::Leased { attempt: 2 });
    assert_eq!(given.store.begin(at(9_000), vec![token]).await.unwrap(), [true]);
    assert_eq!(standing().await, JobStanding::Leased { attempt: 2 });
}

/// R-T1: of a job whose story went with its age nothing is known. The task's own events stay while it runs.
pub(crate) async fn a_job_without_a_story_is_gone(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = started(given, 2).await;
    let strange = NewJob { caller_id: Some("not the task".to_owned()), ..job("a") };
    let begin = vec![(0, strange), (1, job("b"))];
    advanced(given, 1, TaskStep { begin, ..step(id, 1) }).await;
    for kind in ["a", "b"] {
        let leased = hand.take(at(2), worker, &[kind]).await;
        hand.done(at(3), leased.token, success()).await;
    }
    while given.store.prune(at(9_000), at(8_000), at(0), 100).await.unwrap().more {}
    let standings: Vec<JobStanding> =
        given.store.begun(id).await.unwrap().into_iter().map(|begun| begun.standing).collect();
    assert_eq!(standings, [JobStanding::Gone, JobStanding::Succeeded]);
    let events = told(given, id).await;
    assert_eq!(types(&events), ["task_started", "job_enqueued", "attempt_started", "attempt_succeeded"]);
}

/// R-T1: a mark moves a subtask, in and out of the counts; one that is begun again has another job and another round.
pub(crate) async fn marks_move_subtasks(given: &Given) {
    let id = started(given, 3).await;
    let first = begin(given, id, 1, &[0]).await.jobs[0];
    let mark = vec![(0, SubtaskState::Failed), (1, SubtaskState::Skipped)];
    advanced(given, 7, TaskStep { mark, ..step(id, 2) }).await;
    let row = async |number: u32| {
        let rows = given.store.subtasks(id).await.unwrap();
        rows.into_iter().find(|row| row.number == number).expect("it has a row")
    };
    let failed = row(0).await;
    assert_eq!((failed.state, failed.job, failed.rounds), (SubtaskState::Failed, Some(first), 1));
    assert_eq!((failed.started_at, failed.ended_at), (Some(at(1)), Some(at(7))));
    let skipped = row(1).await;
    assert_eq!((skipped.state, skipped.job, skipped.rounds), (SubtaskState::Skipped, None, 0));
    assert_eq!((skipped.started_at, skipped.ended_at), (None, Some(at(7))));
    assert_eq!(read(given, id).await.counts, [1, 0, 0, 1, 1, 0]);
    // A letter that was put back counts again, with the same job.
    advanced(given, 8, TaskStep { mark: vec![(0, SubtaskState::Started)], ..step(id, 3) }).await;
    let back = row(0).await;
    assert_eq!(
        (back.state, back.job, back.rounds, back.ended_at),
        (SubtaskState::Started, Some(first), 1, None)
    );
    assert_eq!(given.store.begun(id).await.unwrap()[0].job, first);
    advanced(given, 9, TaskStep { mark: vec![(0, SubtaskState::Succeeded)], ..step(id, 4) }).await;
    // Undone, it waits with what it was; then, in the same step, it is begun again.
    let mark = vec![(0, SubtaskState::Waiting), (1, SubtaskState::Waiting)];
    advanced(given, 10, TaskStep { mark: mark.clone(), ..step(id, 5) }).await;
    let undone = row(0).await;
    assert_eq!(
        (undone.state, undone.job, undone.ended_at),
        (SubtaskState::Waiting, Some(first), Some(at(9)))
    );
    assert_eq!(read(given, id).await.counts, [3, 0, 0, 0, 0, 0]);
    let again = TaskStep { begin: vec![(0, job("a"))], mark, ..step(id, 6) };
    let second = advanced(given, 11, again).await.jobs[0];
    let again = row(0).await;
    assert_eq!((again.state, again.job, again.rounds), (SubtaskState::Started, Some(second), 2));
    assert_eq!((again.started_at, again.ended_at), (Some(at(11)), None));
    assert_eq!(given.store.subtask_of(second).await.unwrap(), Some((id, 0)));
    assert_eq!(given.store.subtask_of(first).await.unwrap(), None, "it belongs to no subtask any more");
    let mark = vec![(0, SubtaskState::Cancelled), (1, SubtaskState::Succeeded), (2, SubtaskState::Failed)];
    advanced(given, 12, TaskStep { mark, ..step(id, 7) }).await;
    assert_eq!(read(given, id).await.counts, [0, 0, 1, 1, 0, 1]);
}

/// R-T1: what a step tells follows the jobs that it begins, each event led to by the one before, all found by the task's id.
pub(crate) async fn a_step_tells_its_events(given: &Given) {
    let id = started(given, 2).await;
    let other = given.store.append(at(0), vec![reported("elsewhere")]).await.unwrap()[0].0;
    let elsewhere = NewEvent { parent: Some(other), ..reported("led_elsewhere") };
    let begin = vec![(0, job("a"))];
    let events = vec![
        NewEvent { caller_id: Some("nobody".to_owned()), ..reported("recovery_start") },
        reported("recovery_complete"),
        elsewhere,
    ];
    advanced(given, 4, TaskStep { begin, events, ..step(id, 1) }).await;
    let events = told(given, id).await;
    let names = ["task_started", "job_enqueued", "recovery_start", "recovery_complete", "led_elsewhere"];
    assert_eq!(types(&events), names);
    let parents: Vec<Option<EventSeq>> = events.iter().map(|event| event.parent).collect();
    let seqs: Vec<Option<EventSeq>> = events.iter().map(|event| Some(event.seq)).collect();
    assert_eq!(parents, [None, seqs[0], seqs[0], seqs[2], Some(other)]);
    assert_eq!((events[2].source.as_str(), &events[2].data["said"]), ("engine", &json!("recovery_start")));
    assert_eq!(Some(read(given, id).await.event), seqs[4]);
    advanced(given, 5, TaskStep { events: vec![reported("next")], ..step(id, 2) }).await;
    let events = told(given, id).await;
    assert_eq!(events.last().unwrap().parent, seqs[4]);
    // The job's own story begins with its enqueuing.
    let job = given.store.subtasks(id).await.unwrap()[0].job.unwrap();
    assert_eq!(Hand(&*given.store).types(job).await, ["job_enqueued"]);
}

/// R-T1: a task is over once, which is told; afterwards nothing moves it.
pub(crate) async fn an_end_is_told(given: &Given) {
    for (state, report, status) in [
        (TaskState::Succeeded, None, EventStatus::Success),
        (TaskState::Partial, None, EventStatus::Success),
        (TaskState::Cancelled, None, EventStatus::Success),
        (TaskState::Partial, Some(json!({ "level": 2 })), EventStatus::DeadLetter),
        (TaskState::Escalated, Some(json!({ "level": 3 })), EventStatus::DeadLetter),
    ] {
        let id = started(given, 1).await;
        let end = TaskEnd { state, why: "it is over".to_owned(), report: report.clone() };
        let wish = TaskStep { end: Some(end), events: vec![reported("last_words")], ..step(id, 1) };
        let stepped = advanced(given, 9, wish).await;
        let task = read(given, id).await;
        assert_eq!((task.state, task.report, task.ended_at), (state, report, Some(at(9))));
        assert_eq!((task.why.as_deref(), task.version), (Some("it is over"), stepped.version));
        let events = told(given, id).await;
        assert_eq!(types(&events), ["task_started", "last_words", "task_ended"]);
        let last = &events[2];
        assert_eq!((last.status, last.parent, last.seq), (status, Some(events[1].seq), task.event));
        assert_eq!((&last.data["state"], &last.data["why"]), (&json!(state), &json!("it is over")));
        assert_eq!(last.importance, if status == EventStatus::DeadLetter { 4 } else { 3 });
        assert_eq!(given.store.advance_task(at(9), step(id, stepped.version)).await.unwrap(), None);
    }
    let id = started(given, 1).await;
    let wish = ends(id, 1, TaskState::Running);
    assert_eq!(refusal(given.store.advance_task(at(9), wish).await), Refusal::EndsRunning);
}

/// R-T1: a task that is over without success goes on where a person says, and not twice.
pub(crate) async fn a_task_is_reopened(given: &Given) {
    let store = &given.store;
    let id = started(given, 2).await;
    begin(given, id, 1, &[0]).await;
    let (progress, mark) = (json!({ "round": 9 }), vec![(0, SubtaskState::Waiting)]);
    let reopen =
        async |version| store.reopen_task(at(20), id, version, progress.clone(), mark.clone()).await.unwrap();
    assert_eq!(reopen(2).await, None, "it runs");
    let end =
        TaskEnd { state: TaskState::Escalated, why: "help".to_owned(), report: Some(json!({ "a": 1 })) };
    let failed = vec![(0, SubtaskState::Failed), (1, SubtaskState::Skipped)];
    advanced(given, 10, TaskStep { mark: failed, end: Some(end), ..step(id, 2) }).await;
    assert_eq!(reopen(2).await, None, "somebody else has moved it on");
    assert_eq!(reopen(3).await, Some(4));
    assert_eq!(reopen(3).await, None);
    let task = read(given, id).await;
    assert_eq!((task.state, task.version, task.progress), (TaskState::Running, 4, json!({ "round": 9 })));
    assert_eq!((task.why, task.report, task.ended_at), (None, None, None));
    assert_eq!(task.counts, [1, 0, 0, 0, 1, 0]);
    let events = told(given, id).await;
    let last = events.last().unwrap();
    assert_eq!((last.event_type.as_str(), last.seq), ("task_resumed", task.event));
    assert_eq!((last.parent, &last.data["from"]), (Some(events[events.len() - 2].seq), &json!("escalated")));
    begin(given, id, 4, &[0]).await;
    advanced(given, 30, ends(id, 5, TaskState::Succeeded)).await;
    assert_eq!(reopen(6).await, None, "it has succeeded");
    assert_eq!(store.reopen_task(at(20), TaskId(9_999), 1, Value::Null, Vec::new()).await.unwrap(), None);
}

/// R-T7: an escalation that somebody has seen is known to be seen, with what that person said last.
pub(crate) async fn what_is_seen_is_known(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let letter = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    let id = started(given, 1).await;
    advanced(given, 1, ends(id, 1, TaskState::Escalated)).await;
    let subjects = [id.to_string(), letter.to_string(), "something".to_owned()];
    assert_eq!(given.store.acknowledged(subjects.to_vec()).await.unwrap(), []);
    let seen = async |now, subject: &str, note: Option<&str>| {
        given.store.acknowledge(at(now), subject.to_owned(), note.map(str::to_owned)).await.unwrap();
    };
    seen(5, &subjects[0], Some("on it")).await;
    seen(6, &subjects[1], None).await;
    seen(7, &subjects[0], Some("still on it")).await;
    let known = given.store.acknowledged(subjects.to_vec()).await.unwrap();
    let expected: Vec<(&str, _, _)> =
        vec![(&subjects[1], at(6), None), (&subjects[0], at(7), Some("still on it".to_owned()))];
    let found: Vec<(&str, _, _)> =
        known.iter().map(|ack| (ack.subject.as_str(), ack.at, ack.note.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(given.store.acknowledged(vec![subjects[2].clone()]).await.unwrap(), []);
    // It is told beside what it is about, after what came last there.
    let task = read(given, id).await;
    let events = told(given, id).await;
    assert_eq!(types(&events)[2..], ["escalation_acknowledged", "escalation_acknowledged"]);
    assert_eq!((events[3].parent, &events[3].data["note"]), (Some(task.event), &json!("still on it")));
    assert_eq!((task.version, task.state), (2, TaskState::Escalated), "the task is what it was");
    let story = hand.story(letter).await;
    let last = story.last().unwrap();
    assert_eq!(
        (last.event_type.as_str(), last.parent),
        ("escalation_acknowledged", Some(story[story.len() - 2].seq))
    );
    assert!(matches!(hand.record(letter).await.state, JobState::Dead(_)));
    let bad = given.store.acknowledge(at(8), String::new(), None).await;
    assert!(matches!(refusal(bad), Refusal::BadName { .. }));
}

/// R-T1: tasks that are over go with their age, whole; one that runs stays with its events, and the newest with its number.
pub(crate) async fn old_tasks_go(given: &Given) {
    let store = &given.store;
    let mut ids = Vec::new();
    for place in 0..5_u32 {
        let id = started(given, 2).await;
        if place != 1 {
            let mark = vec![(0, SubtaskState::Skipped), (1, SubtaskState::Skipped)];
            let end = ends(id, 1, TaskState::Partial);
            advanced(given, i64::from(place) * 1_000, TaskStep { mark, ..end }).await;
        }
        store.acknowledge(at(i64::from(place) * 1_000), id.to_string(), None).await.unwrap();
        ids.push(id);
    }
    let left = async || -> Vec<TaskId> {
        let mut left: Vec<TaskId> =
            store.tasks(false, None, 10).await.unwrap().iter().map(|task| task.id).collect();
        left.reverse();
        left
    };
    let subjects: Vec<String> = ids.iter().map(ToString::to_string).collect();
    assert!(store.prune(at(9_000), at(2_500), at(2_500), 1).await.unwrap().more, "a round is bounded");
    assert_eq!(left().await, ids[1..]);
    while store.prune(at(9_000), at(2_500), at(2_500), 100).await.unwrap().more {}
    assert_eq!(left().await, [ids[1], ids[3], ids[4]]);
    assert_eq!(store.subtasks(ids[0]).await.unwrap(), []);
    assert_eq!(store.subtasks(ids[3]).await.unwrap().len(), 2);
    assert_eq!(store.acknowledged(subjects.clone()).await.unwrap().len(), 2, "those of then went");
    while store.prune(at(9_000), at(8_000), at(8_000), 100).await.unwrap().more {}
    assert_eq!(left().await, [ids[1], ids[4]]);
    assert_eq!(store.acknowledged(subjects).await.unwrap()[0].subject, ids[4].to_string());
    assert_eq!(types(&told(given, ids[1]).await)[..1], ["task_started"]);
    assert_eq!(told(given, ids[0]).await, []);
    let next = started(given, 1).await;
    assert!(next > ids[4]);
}
