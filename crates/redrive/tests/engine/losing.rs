//! What becomes of work that somebody cancels, of leases that are lost, and of answers that come too late.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{BatchContext, Context, Item, ItemAnswer, Shutdown};
use redrive::{Cause, Details, Fail, Override, Policy, RetryError, fail};
use redrive_store::{EventFilter, JobId, JobState, LetterFilter, Order, WorkerId};
use tokio::sync::Notify;

use crate::support::{World, run, until};

async fn register(world: &World, label: &str) -> WorkerId {
    let store = world.engine.store();
    store.register(world.engine.now(), label.to_owned(), Duration::from_mins(1)).await.unwrap()
}

async fn types(world: &World, job: JobId) -> Vec<String> {
    let filter = EventFilter { job: Some(job), order: Order::OldestFirst, ..EventFilter::default() };
    world.engine.query(filter, 100).await.unwrap().into_iter().map(|event| event.event_type).collect()
}

/// R-D1, R-D2: a job that somebody cancelled is not put back by a worker that leaves before it has heard of that.
#[test]
fn a_cancelled_job_does_not_come_back() {
    run(async {
        let world = World::new();
        let job = world.engine.job("slow", &()).enqueue().await.unwrap().id;
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let worker =
            world.worker().handle("slow", |(): (), _: Context| std::future::pending::<Result<(), Fail>>());
        let task = tokio::spawn(async move { worker.run(&stop).await });
        until(|| async { matches!(world.state(job).await, JobState::Leased { .. }) }).await;
        assert_eq!(world.engine.cancel(job, "token=hunter2 is enough").await.unwrap(), Some(false));
        shutdown.now();
        let report = task.await.unwrap().unwrap();
        assert_eq!((report.cancelled, report.released), (1, 0));
        assert_eq!(world.state(job).await, JobState::Ended);
        let filter = EventFilter { job: Some(job), ..EventFilter::default() };
        let last = world.engine.query(filter, 1).await.unwrap().remove(0);
        assert_eq!(
            (last.event_type.as_str(), &last.data["instead_of"]),
            ("job_cancelled", &"released".into())
        );
        assert_eq!(last.data["why"], "token=[redacted] is enough");
    });
}

/// R-D2, reliability row 19: a success that comes too late is told, counted as lost, and changes nothing.
#[test]
fn a_success_that_comes_too_late_is_told_and_lost() {
    run(async {
        let world = Arc::new(World::new());
        let job = world.engine.job("slow", &()).enqueue().await.unwrap().id;
        let reaper = register(&world, "reaper").await;
        let theirs = Arc::clone(&world);
        let report = world
            .worker()
            .handle("slow", move |(): (), cx: Context| {
                let world = Arc::clone(&theirs);
                async move {
                    if cx.fence() == 1 {
                        // Somebody takes the lease over while this attempt believes that it has it.
                        let later = world.engine.now().after(Duration::from_secs(31));
                        let store = world.engine.store();
                        let lease_for = Duration::from_secs(30);
                        let seized = store.seize_expired(later, reaper, lease_for, 9).await.unwrap();
                        let ending = redrive_store::Ending::Released { why: "taken over".to_owned() };
                        let token = seized[0].leased.token;
                        let settlement = redrive_store::Settlement { token, ending };
                        store.settle(world.engine.now(), vec![settlement]).await.unwrap();
                        // Wait for the second attempt, which is the one that counts.
                        until(|| async { world.state(cx.job_id()).await == JobState::Ended }).await;
                    }
                    Ok::<_, Fail>(())
                }
            })
            .run_until_empty()
            .await
            .unwrap();
        assert_eq!((report.succeeded, report.lost), (1, 1), "{report:?}");
        let told = types(&world, job).await;
        assert_eq!(told.iter().filter(|name| *name == "attempt_succeeded").count(), 1, "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("stale_settle"), "{told:?}");
        assert!(world.engine.store().check().await.unwrap().is_clean());
    });
}

/// Reliability row 18: a batch that has lost all of its leases acts no further.
#[test]
fn a_batch_that_lost_everything_is_stopped() {
    run(async {
        let world = World::new();
        for _ in 0..3 {
            world.engine.job("many", &()).enqueue().await.unwrap();
        }
        let (acted, go) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let begun = Arc::new(AtomicBool::new(false));
        let (acts, waits, begins) = (Arc::clone(&acted), Arc::clone(&go), Arc::clone(&begun));
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let worker = world.worker().handle_batch("many", 3, move |items: Vec<Item<()>>, _: BatchContext| {
            let (acts, waits, begins) = (Arc::clone(&acts), Arc::clone(&waits), Arc::clone(&begins));
            async move {
                begins.store(true, Ordering::SeqCst);
                waits.notified().await;
                acts.store(true, Ordering::SeqCst);
                Ok::<_, Fail>(items.iter().map(|item| (item.job_id(), ItemAnswer::Ack)).collect())
            }
        });
        let task = tokio::spawn(async move { worker.run(&stop).await });
        until(|| async { begun.load(Ordering::SeqCst) }).await;
        // The process is stopped for a minute; another one takes the leases over.
        let reaper = register(&world, "reaper").await;
        world.clock.advance(Duration::from_mins(1));
        assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 3);
        go.notify_one();
        shutdown.signal();
        let report = task.await.unwrap().unwrap();
        assert_eq!((report.succeeded, report.lost), (0, 3), "{report:?}");
        assert!(!acted.load(Ordering::SeqCst), "it acted without a lease");
    });
}

/// Something that takes its time to end.
struct Guard(Arc<AtomicU32>);

impl Drop for Guard {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reliability row 27: what has succeeded in the very moment of the second signal stays done; the rest is given back after
/// it has stopped, and not counted.
#[test]
fn a_worker_that_ends_at_once_gives_back_what_has_stopped() {
    run(async {
        let world = World::new();
        let job = world.engine.job("slow", &()).enqueue().await.unwrap().id;
        let running = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&running);
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let worker = world.worker().handle("slow", move |(): (), _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            let guard = Guard(Arc::clone(&counted));
            async move {
                let _guard = guard;
                std::future::pending::<Result<(), Fail>>().await
            }
        });
        let task = tokio::spawn(async move { worker.run(&stop).await });
        until(|| async { running.load(Ordering::SeqCst) == 1 }).await;
        shutdown.now();
        until(|| async { matches!(world.state(job).await, JobState::Ready { .. }) }).await;
        assert_eq!(running.load(Ordering::SeqCst), 0, "given back while it still ran");
        assert_eq!(task.await.unwrap().unwrap().released, 1);
        assert_eq!(world.engine.store().job(job).await.unwrap().unwrap().attempts, 0);
    });
}

/// R-D1: a retry in process whose job somebody cancels between two attempts ends, instead of waiting for ever.
#[test]
fn a_retry_in_process_hears_that_it_was_cancelled() {
    run(async {
        let world = World::new();
        let engine = world.engine.clone();
        let task = tokio::spawn(async move {
            engine.retry("fetch", || async { Err::<(), _>(fail(Cause::Network, "reset")) }).await
        });
        until(|| async { matches!(world.engine.store().job(JobId(1)).await, Ok(Some(record)) if record.attempts == 1 && matches!(record.state, JobState::Ready { .. })) })
            .await;
        assert_eq!(world.engine.cancel(JobId(1), "enough").await.unwrap(), Some(true));
        let error: RetryError<Fail> = task.await.unwrap().unwrap_err();
        assert_eq!(error.stopped(), redrive::Stop::Cancelled);
    });
}

/// R-D7: whatever a failure carries, no secret is stored with it: in no event, letter, hint or report.
#[test]
fn no_secret_of_a_failure_is_stored() {
    run(async {
        let world = World::new();
        let secrets = || {
            fail(
                Cause::Quality,
                "login with password=hunter2 failed at https://u:hunter2@example.com/?token=hunter2",
            )
            .code("api_key=hunter2")
            .details(Details {
                message: Some("secret=hunter2".into()),
                specific_issues: vec!["token=hunter2".into()],
                failed_criteria: vec!["password=hunter2".into()],
                modification_requirements: vec!["use api_key=hunter2".into()],
                previous_output_summary: Some("Authorization: Bearer hunter2hunter2hunter2".into()),
                ..Details::default()
            })
        };
        let inline = world.engine.retry("inline", || async { Err::<(), _>(secrets()) }).policy(
            Policy::standard().with_override(&Override { max_retries: Some(1), ..Override::default() }),
        );
        let inline = world.while_time_passes(Duration::from_mins(5), async { inline.await }).await;
        assert!(inline.is_err());
        world.engine.job("work", &()).enqueue().await.unwrap();
        world.engine.job("panic", &()).enqueue().await.unwrap();
        let hints = Arc::new(std::sync::Mutex::new(String::new()));
        let heard = Arc::clone(&hints);
        let work = world
            .worker()
            .handle("work", move |(): (), cx: Context| {
                heard.lock().unwrap().push_str(cx.hint().unwrap_or_default());
                async move { Err::<(), _>(secrets()) }
            })
            .handle("panic", |(): (), cx: Context| async move {
                assert!(cx.fence() < 0, "password=hunter2");
                Ok::<_, Fail>(())
            })
            .run_until_empty();
        world.while_time_passes(Duration::from_mins(5), work).await.unwrap();
        assert!(hints.lock().unwrap().contains("[redacted]"), "the hint was not heard");
        let mut stored = hints.lock().unwrap().clone();
        let mut lines = Vec::new();
        world.engine.export_events(EventFilter::default(), &mut lines).await.unwrap();
        stored.push_str(&String::from_utf8(lines).unwrap());
        for letter in world.engine.store().letters(LetterFilter::default(), 99).await.unwrap() {
            write!(stored, "{letter:?}").unwrap();
        }
        let told =
            stored.find("hunter2").map(|at| &stored[stored.floor_char_boundary(at.saturating_sub(120))..at]);
        assert_eq!(told, None, "a secret is stored after these words");
    });
}
