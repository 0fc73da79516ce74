//! The same policy gives the record back, whatever happened: failures of every kind, chance, crashes, people.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{Candidate, EngineBuilder, Reply, Simulation};
use redrive::{Cause, Fail, Override, Rng, fail};
use redrive_store::{EventFilter, JobId, JobState, LeaseRequest, Order, Timestamp};

use crate::world::{World, beside, candidate, on_both, second};

/// What a handler does next, by chance: fails in one of many ways, succeeds, or wants to wait.
fn whim(rng: &mut Rng) -> Result<Reply, Fail> {
    let causes =
        [Cause::Network, Cause::Timeout, Cause::RateLimit, Cause::ApiError, Cause::Unknown, Cause::NotFound];
    let cause = causes[usize::try_from(rng.between(0, 5)).unwrap()];
    match rng.between(0, 19) {
        0..=2 => Ok(Reply::Done),
        3 => Ok(Reply::Snooze(Duration::from_secs(rng.between(1, 90)))),
        4 => Ok(Reply::Cancel("no longer wanted".to_owned())),
        5 => Err(fail(Cause::RateLimit, "slow down").retry_after(Duration::from_secs(rng.between(1, 5_000)))),
        6 => Err(fail(cause, "strange").worth_a_retry()),
        7 => Err(fail(cause, "hopeless").for_good()),
        8 => Err(fail(cause, "coded").code("ThrottlingException")),
        _ => Err(fail(cause, "not now")),
    }
}

/// Jobs under every preset, some with overrides and deadlines, worked on for two hours while people meddle.
async fn record(world: &World, seed: u64) -> Vec<JobId> {
    let rng = Arc::new(Mutex::new(Rng::seeded(seed)));
    let chance = Arc::clone(&rng);
    let worker = world.worker().handle("whim", move |(): (), _cx| {
        let answer = whim(&mut chance.lock().unwrap());
        async move { answer }
    });
    let presets = ["standard", "collector", "patient", "test", "strict"];
    beside(worker, async {
        let mut jobs = Vec::new();
        for number in 0..24_u64 {
            let known = presets.iter().filter(|name| world.engine.policy(name).is_ok()).collect::<Vec<_>>();
            let policy = known[usize::try_from(number).unwrap() % known.len()];
            let mut job = world.engine.job("whim", &()).policy(*policy);
            if number % 3 == 0 {
                job = job.overrides(&Override { max_retries: Some(6), ..Override::default() });
            }
            if number % 4 == 0 {
                job = job.deadline(Duration::from_secs(40 * number));
            }
            jobs.push(job.enqueue().await.unwrap().id);
            world.until(second(number * 20), &jobs).await;
        }
        for round in 0..4_u64 {
            world.until(second(1_000 + round * 600), &jobs).await;
            for (i, job) in jobs.iter().enumerate() {
                match world.state(*job).await {
                    Some(JobState::Dead(_)) if i % 3 == 0 => {
                        world.engine.redrive(vec![*job]).await.unwrap();
                    }
                    Some(JobState::Dead(_)) if i % 7 == 1 => {
                        world.engine.retry_now(*job, true).await.unwrap();
                    }
                    Some(JobState::Ready { .. }) if i % 5 == 0 => {
                        world.engine.retry_now(*job, true).await.unwrap();
                    }
                    Some(JobState::Ready { .. } | JobState::Dead(_)) if i % 11 == 2 => {
                        world.engine.cancel(*job, "enough").await.unwrap();
                    }
                    _ => {}
                }
            }
            world.at(second(1_000 + round * 600), &jobs).await;
        }
        jobs
    })
    .await
}

/// Two workers die with a job each, which the reaper finds.
async fn die_twice(world: &World) {
    world.engine.job("poison", &()).enqueue().await.unwrap();
    let store = world.engine.store();
    let reaper = store.register(world.engine.now(), "reaper".into(), Duration::from_hours(9)).await.unwrap();
    for _ in 0..2 {
        let worker =
            store.register(world.engine.now(), "mortal".into(), Duration::from_secs(30)).await.unwrap();
        let request = LeaseRequest {
            worker,
            queues: Vec::new(),
            kinds: vec!["poison".into()],
            reserved_only: false,
            max: 1,
            lease_for: Duration::from_secs(30),
            begin: true,
            wait: Duration::ZERO,
        };
        assert_eq!(store.lease(world.engine.now(), request).await.unwrap().len(), 1);
        world.clock.advance(Duration::from_secs(31));
        assert_eq!(world.engine.maintain(reaper).await.unwrap().reaped, 1);
        world.clock.advance(Duration::from_mins(10));
    }
}

/// What the stream itself says, counted without any of the code under test: the attempts that began, of jobs that
/// failed; and how often a job was set aside.
async fn counted(world: &World) -> (u64, u64) {
    let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    let events = world.engine.query(filter, 100_000).await.unwrap();
    let mut began: HashMap<JobId, u64> = HashMap::new();
    let mut failed: HashMap<JobId, bool> = HashMap::new();
    let mut dead = 0;
    for event in &events {
        let Some(job) = event.job else { continue };
        match event.event_type.as_str() {
            "attempt_started" => *began.entry(job).or_default() += 1,
            "attempt_failed" | "job_dead" => {
                dead += u64::from(event.event_type == "job_dead");
                failed.insert(job, true);
            }
            _ => {}
        }
    }
    (began.iter().filter(|(job, _)| failed.contains_key(job)).map(|(_, count)| count).sum(), dead)
}

fn is_the_record(simulation: &Simulation) {
    let simulated = &simulation.simulated[0];
    assert_eq!(simulated.tally, simulation.recorded);
    assert_eq!((simulated.departing, simulated.differing, simulated.tally.unexplained), (0, 0, 0));
    assert!(simulated.missing.is_empty(), "{:?}", simulated.missing);
}

/// Issue 5, item 5: real handlers, real stores, chance, deadlines, overrides, crashes, redrives, manual retries, cancels:
/// each job's own policy gives the record back, attempt for attempt.
#[test]
fn each_jobs_own_policy_gives_the_record_back() {
    let own = || vec![Candidate { label: "own".to_owned(), ..Candidate::default() }];
    on_both(&|builder: EngineBuilder| builder, |world| async move {
        record(&world, 11).await;
        die_twice(&world).await;
        let simulation = world.simulate(own()).await;
        is_the_record(&simulation);
        let (began, dead) = counted(&world).await;
        assert!(simulation.recorded.jobs > 12 && simulation.acted_on > 3, "{simulation:?}");
        // A job whose deadline had passed when its turn came never began, and is told as an attempt all the same.
        let attempts = simulation.recorded.attempts.most;
        assert!(attempts >= began && attempts <= began + dead, "{attempts} {began} {dead}");
        assert_eq!((simulation.recorded.set_aside.least, simulation.recorded.set_aside.most), (dead, dead));

        // And it is no accident: another policy does not.
        let other = world.simulate(vec![candidate("standard")]).await;
        assert_ne!(other.simulated[0].tally, other.recorded);
        assert!(other.simulated[0].departing > 3);

        // One seed, one answer.
        let again = world.simulate(vec![candidate("standard")]).await;
        assert_eq!(other.simulated[0].tally, again.simulated[0].tally);
    });
}

/// Issue 5, item 5: the record of a moment in between is given back, too: what waits, waits, and what is overdue is overdue.
#[test]
fn what_has_not_ended_is_open() {
    on_both(&|builder: EngineBuilder| builder, |world| async move {
        let worker = world.worker().handle("down", |(): (), _cx| async {
            Err::<(), Fail>(fail(Cause::Network, "connection refused"))
        });
        let jobs = beside(worker, async {
            let mut jobs: Vec<JobId> = Vec::new();
            for _ in 0..5 {
                jobs.push(world.engine.job("down", &()).enqueue().await.unwrap().id);
            }
            world.at(second(1), &jobs).await;
            jobs
        })
        .await;
        // Nobody works any more, and what was due is not done.
        let due: Timestamp = world.next(&jobs).await.unwrap();
        for now in [due, due.after(Duration::from_hours(2))] {
            world.clock.advance(now.since(world.engine.now()));
            let own = Candidate { label: "own".to_owned(), ..Candidate::default() };
            let simulation = world.simulate(vec![own, candidate("standard")]).await;
            is_the_record(&simulation);
            assert_eq!((simulation.recorded.jobs, simulation.recorded.open), (5, 5));
        }
    });
}
