//! Telling a person: who is told, when, and how often (R-T7, R-T8, R-T10).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{Context, EngineBuilder, Escalated};
use redrive::{Cause, Lang, fail};
use redrive_policy::{Config, EscalationLevel, Format, ReasonType};
use redrive_store::{JobId, JobState, LetterFilter};

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
