//! Batches: an answer for each item, and nothing is believed when the answers do not fit (R-D3).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{BatchContext, Item, ItemAnswer};
use redrive::{Cause, Fail, fail};
use redrive_store::{JobId, JobState, LetterReason, NewJob};

use crate::support::{World, run};

async fn enqueue(world: &World, payloads: &[&str]) -> Vec<JobId> {
    let jobs =
        payloads.iter().map(|payload| NewJob::new("index", serde_json::to_vec(payload).unwrap())).collect();
    world.engine.enqueue_many(jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect()
}

/// R-D3: what succeeded is committed, the rest is retried, put off or set aside, item by item.
#[test]
fn each_item_gets_what_it_was_answered() {
    run(async {
        let world = World::new();
        let jobs = enqueue(&world, &["ok", "fail", "later", "never", "ok"]).await;
        let unreadable = world.engine.enqueue(NewJob::new("index", "7")).await.unwrap().id;
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let shutdown = redrive::engine::Shutdown::new();
        let stop = shutdown.clone();
        let settled = Mutex::new(0);
        let worker = world
            .worker()
            .observe(move |_| {
                let mut settled = settled.lock().unwrap();
                *settled += 1;
                if *settled == 6 {
                    stop.signal();
                }
            })
            .handle_batch("index", 100, move |items: Vec<Item<String>>, _: BatchContext| {
                seen.lock().unwrap().push(items.len());
                async move {
                    let answer = |text: &str| match text {
                        "fail" => ItemAnswer::failed(&fail(Cause::Network, "reset")),
                        "later" => ItemAnswer::retry_after(Duration::from_secs(90), "being rebuilt"),
                        "never" => ItemAnswer::dead_letter("nobody wants it"),
                        _ => ItemAnswer::Ack,
                    };
                    Ok::<_, Fail>(items.iter().map(|item| (item.job_id(), answer(&item.payload))).collect())
                }
            });
        let report = worker.run(&shutdown).await.unwrap();
        assert_eq!((report.succeeded, report.retried, report.dead), (2, 2, 2));
        assert_eq!(*sizes.lock().unwrap(), [5]);
        assert_eq!(world.state(jobs[0]).await, JobState::Ended);
        assert!(matches!(world.state(jobs[1]).await, JobState::Ready { .. }));
        let due = world.engine.now().after(Duration::from_secs(90));
        assert_eq!(world.state(jobs[2]).await, JobState::Ready { run_at: due, held_for: None });
        let letter = world.letter(jobs[3]).await;
        assert_eq!(
            (letter.reason, letter.error_message.as_str()),
            (LetterReason::Requested, "nobody wants it")
        );
        assert_eq!(world.letter(unreadable).await.cause, Cause::ValidationError);
    });
}

/// Reliability, batches: an answer that does not cover exactly the items is a failure of the whole batch.
#[test]
fn answers_that_do_not_fit_fail_the_whole_batch() {
    for (wrong, words) in [
        ("missing", "no answer for job_2"),
        ("unknown", "answered for job_99"),
        ("twice", "answered twice for job_1"),
        ("error", "the index is down"),
        ("panic", "boom"),
    ] {
        run(async {
            let world = World::new();
            let jobs = enqueue(&world, &["a", "b"]).await;
            let shutdown = redrive::engine::Shutdown::new();
            let stop = shutdown.clone();
            let worker = world.worker().observe(move |_| stop.signal()).handle_batch(
                "index",
                10,
                move |items: Vec<Item<String>>, _: BatchContext| async move {
                    let mut answers: Vec<_> =
                        items.iter().map(|item| (item.job_id(), ItemAnswer::Ack)).collect();
                    match wrong {
                        "missing" => drop(answers.pop()),
                        "unknown" => answers.push((JobId(99), ItemAnswer::Ack)),
                        "twice" => answers.push((JobId(1), ItemAnswer::Ack)),
                        "error" => return Err(fail(Cause::ApiError, "the index is down")),
                        _ => panic!("boom"),
                    }
                    Ok(answers)
                },
            );
            let report = worker.run(&shutdown).await.unwrap();
            assert_eq!((report.succeeded, report.retried), (0, 2), "{wrong}");
            for job in jobs {
                let story = world.engine.explain(job, redrive::Lang::En).await.unwrap().unwrap();
                let told = story.attempts[0].error_message.as_deref().unwrap();
                assert!(told.contains(words), "{wrong}: {told}");
            }
        });
    }
}
