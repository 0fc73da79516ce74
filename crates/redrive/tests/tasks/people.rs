//! People in between: they cancel tasks and jobs, resume, and put letters back or away by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Context, WorkerBuilder};
use redrive::{Cause, fail};
use redrive_store::{JobState, SubtaskState, TaskId, TaskState};

use crate::support::{Kind, World, on_both, until};

use SubtaskState::{Cancelled, Failed, Skipped, Succeeded};

on_both! {
    /// R-T1: a task that is cancelled while it runs ends what runs, begins nothing more, and can be resumed.
    cancelled_and_resumed = cancelled;
    /// R-T1: whoever moves a task on in the same process hears at once that it is to end.
    a_cancel_is_heard_at_once = heard_at_once;
    /// R-T2: a partial task that is resumed does only what is missing, with a fresh budget.
    partial_and_resumed = partial;
    /// R-T2: a task that needed a person goes on when that person says so; nothing that succeeded is done again.
    escalated_and_resumed = escalated;
    /// R-T2: a letter that somebody put back by hand, and that succeeded, is not done again.
    a_letter_redriven_by_hand = redriven;
    /// R-T2: a letter that somebody put away by hand is done anew.
    a_letter_discarded_by_hand = discarded;
    /// R-T1: a subtask whose job somebody cancels is one that failed: the task does not hang.
    a_job_cancelled_by_somebody = job_cancelled;
    /// R-T1: a job that somebody cancels before it was taken up ends its subtask as well.
    a_waiting_job_cancelled_by_somebody = waiting_job_cancelled;
}

/// How often `flaky` was called, and whether it still fails.
#[derive(Default)]
struct Flaky {
    calls: AtomicU32,
    mended: AtomicU32,
}

impl Flaky {
    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    fn mend(&self) {
        self.mended.store(1, Ordering::SeqCst);
    }

    fn worker(self: &Arc<Flaky>, world: &World) -> WorkerBuilder {
        let (flaky, good) = (Arc::clone(self), Arc::clone(self));
        world
            .worker()
            .handle("flaky", move |(): (), _: Context| {
                flaky.calls.fetch_add(1, Ordering::SeqCst);
                let mended = flaky.mended.load(Ordering::SeqCst) == 1;
                async move { if mended { Ok(()) } else { Err(fail(Cause::Network, "connection reset")) } }
            })
            .handle("good", move |(): (), _: Context| {
                good.calls.fetch_add(100, Ordering::SeqCst);
                async { Ok::<_, redrive::Fail>(()) }
            })
    }
}

/// `good` is kept or not as the plan says; `after` depends on what fails.
fn plan(recovery: &str) -> String {
    format!(
        r#"
{recovery}
[[subtasks]]
handler = "flaky"
[[subtasks]]
handler = "good"
[[subtasks]]
handler = "good"
depends_on = 1
"#
    )
    .replace("depends_on = 1", "depends_on = [\"sub-1\"]")
}

/// A task of which `flaky` has failed for good, after four calls.
async fn failed(world: &World, flaky: &Arc<Flaky>, recovery: &str, ends: TaskState) -> TaskId {
    let id = world.start(&plan(recovery)).await;
    let (state, _) = world.finish(id, flaky.worker(world)).await;
    assert_eq!(state, ends, "{:#?}", world.task(id).await);
    id
}

async fn cancelled(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/a", "before\n");
    let plan = r#"
parallel = 1
[[subtasks]]
command = "echo 1 >> first"
[[subtasks]]
depends_on = "sub-1"
snapshot = "src"
command = "echo after > src/a; touch running; [ -e go ] || sleep 60"
[[subtasks]]
depends_on = "sub-2"
command = "echo 3 >> third"
"#;
    let id = world.start(plan).await;
    let person = async {
        until("the second runs", async || world.text("running").is_some()).await;
        assert!(world.engine.cancel_task(id, "not today").await.unwrap());
    };
    let ((state, _), ()) = tokio::join!(world.finish(id, world.worker()), person);
    assert_eq!(state, TaskState::Cancelled);
    assert_eq!(world.task(id).await.why.as_deref(), Some("not today"));
    assert_eq!(world.states(id).await, [Succeeded, Cancelled]);
    assert_eq!((world.text("src/a").as_deref(), world.text("third")), (Some("before\n"), None));
    assert!(!world.engine.cancel_task(id, "again").await.unwrap());
    world.write("go", "");
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, world.worker()).await;
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
    assert_eq!(world.text("first").as_deref(), Some("1\n"));
    assert_eq!(world.text("third").as_deref(), Some("3\n"));
    world.is_sound().await;
}

async fn heard_at_once(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start("[[subtasks]]\ncommand = \"true\"\n").await;
    let mut driver = world.engine.task_driver(id, 1, None);
    driver.turn().await.unwrap();
    assert!(world.engine.cancel_task(id, "not today").await.unwrap());
    // One turn asks the job to end, the next one sees that it has.
    assert_eq!(driver.turn().await.unwrap().state, TaskState::Running);
    assert_eq!(driver.turn().await.unwrap().state, TaskState::Cancelled);
}

async fn partial(kind: Kind) {
    let (world, flaky) = (World::new(kind).await, Arc::new(Flaky::default()));
    let id = failed(&world, &flaky, "", TaskState::Partial).await;
    assert_eq!(world.states(id).await, [Failed, Succeeded, Skipped]);
    assert_eq!(flaky.calls(), 104);
    // Still broken: the budget is a fresh one, and the end is the same.
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, flaky.worker(&world)).await;
    assert_eq!((state, flaky.calls()), (TaskState::Partial, 108));
    flaky.mend();
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, flaky.worker(&world)).await;
    assert_eq!((state, flaky.calls()), (TaskState::Succeeded, 209));
    // There is nothing to go on with.
    assert!(!world.engine.resume_task(id).await.unwrap());
    world.is_sound().await;
}

async fn escalated(kind: Kind) {
    let (world, flaky) = (World::new(kind).await, Arc::new(Flaky::default()));
    let id = failed(&world, &flaky, "recovery = { strategy = \"ESCALATE\" }", TaskState::Escalated).await;
    assert_eq!(flaky.calls(), 104);
    flaky.mend();
    assert!(world.engine.resume_task(id).await.unwrap());
    assert!(world.engine.resume_task(id).await.unwrap(), "it runs, and somebody may say so twice");
    let (state, _) = world.finish(id, flaky.worker(&world)).await;
    assert_eq!((state, flaky.calls()), (TaskState::Succeeded, 205));
    world.is_sound().await;
}

async fn redriven(kind: Kind) {
    let (world, flaky) = (World::new(kind).await, Arc::new(Flaky::default()));
    let id = failed(&world, &flaky, "", TaskState::Partial).await;
    flaky.mend();
    let job = world.job(id, 0).await;
    world.engine.redrive(vec![job]).await.unwrap();
    flaky.worker(&world).run_until_empty().await.unwrap();
    assert_eq!(world.store.job(job).await.unwrap().unwrap().state, JobState::Ended);
    assert_eq!(flaky.calls(), 105);
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, flaky.worker(&world)).await;
    // Only what was skipped is done.
    assert_eq!((state, flaky.calls()), (TaskState::Succeeded, 205));
    assert_eq!(world.states(id).await, [Succeeded; 3]);
    world.is_sound().await;
}

async fn discarded(kind: Kind) {
    let (world, flaky) = (World::new(kind).await, Arc::new(Flaky::default()));
    let id = failed(&world, &flaky, "", TaskState::Partial).await;
    flaky.mend();
    let job = world.job(id, 0).await;
    let now = world.engine.now();
    let gone = world.store.discard(now, vec![job], "letter_discarded", None).await.unwrap();
    assert_eq!(gone, [true]);
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, flaky.worker(&world)).await;
    assert_eq!((state, flaky.calls()), (TaskState::Succeeded, 205));
    assert_ne!(world.job(id, 0).await, job);
    world.is_sound().await;
}

async fn job_cancelled(kind: Kind) {
    let world = World::new(kind).await;
    let plan = r#"
[[subtasks]]
command = "touch running; sleep 60"
[[subtasks]]
command = "true"
[[subtasks]]
depends_on = "sub-1"
command = "touch after"
"#;
    let id = world.start(plan).await;
    let person = async {
        until("it runs", async || world.text("running").is_some()).await;
        let job = world.job(id, 0).await;
        world.store.cancel(world.engine.now(), job, "not this one".to_owned()).await.unwrap();
    };
    let ((state, _), ()) = tokio::join!(world.finish(id, world.worker()), person);
    assert_eq!(state, TaskState::Partial);
    assert_eq!(world.states(id).await, [Cancelled, Succeeded, Skipped]);
    assert_eq!(world.text("after"), None);
    let report = world.task(id).await.report.unwrap();
    assert!(report["user_message"].as_str().is_some_and(|told| !told.is_empty()), "{report:#}");
    world.is_sound().await;
}

async fn waiting_job_cancelled(kind: Kind) {
    let world = World::new(kind).await;
    let id = world.start("[[subtasks]]\ncommand = \"true\"\n").await;
    let mut driver = world.engine.task_driver(id, 1, None);
    assert_eq!(driver.turn().await.unwrap().state, TaskState::Running);
    let job = world.job(id, 0).await;
    world.store.cancel(world.engine.now(), job, "not this one".to_owned()).await.unwrap();
    for _ in 0..10 {
        if driver.turn().await.unwrap().again_in.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.task(id).await.state, TaskState::Escalated);
    assert!(world.engine.resume_task(id).await.unwrap());
    let (state, _) = world.finish(id, world.worker()).await;
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
}
