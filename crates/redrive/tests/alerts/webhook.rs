//! Messages by webhook: they fire and resolve, arrive although the far side fails at first, and tell no secrets.

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{
    ALERT_KIND, ALERT_QUEUE, AlertExecutor, AlertRule, Context, Engine, NewSilence, Shutdown,
};
use redrive_policy::{Config, Format};
use redrive_store::{GroupQuery, GroupState, LetterFilter, NewJob, Origin};

use crate::sink::Sink;
use crate::world::{World, run};

const MINUTE: Duration = Duration::from_mins(1);

fn config(url: &str) -> String {
    format!(
        "[[alerts.receivers]]\nname = \"ops\"\nwebhook = \"{url}\"\nheaders = {{ Authorization = \"Bearer topsecretheader\" }}\n"
    )
}

/// R-C5: an alert fires and resolves against a webhook that fails twice first; each message arrives once, under one key.
#[test]
fn an_alert_fires_and_resolves_although_the_webhook_fails_twice() {
    run(async {
        let sink = Sink::answering(&[500, 503]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        assert_eq!(world.look_after(Duration::from_secs(1)).await, 1, "the first letter is told at once");
        assert_eq!(world.look_after(MINUTE).await, 0);
        world.deliver().await;
        let got = sink.got();
        assert_eq!(got.iter().map(|one| one.answered).collect::<Vec<_>>(), [500, 503, 200]);
        let keys: Vec<_> = got.iter().map(|one| one.header("idempotency-key").unwrap().to_owned()).collect();
        assert!(
            keys.iter().all(|key| *key == keys[0] && key.starts_with("alert:dead_letters:fired:")),
            "{keys:?}"
        );
        assert!(got.iter().all(|one| one.header("redrive-alert-hop") == Some("1")));
        let body = &got[2].body;
        assert_eq!((body["what"].as_str(), body["rule"].as_str()), (Some("fired"), Some("dead_letters")));
        assert_eq!((body["severity"].as_str(), body["value"].as_f64()), (Some("critical"), Some(1.0)));
        assert_eq!(body["groups"][0]["sample"], "no such address");
        assert!(body["text"].as_str().unwrap().contains("dead letters: 1"), "{body}");
        let letters: Vec<_> = world.engine.store().letters(LetterFilter::default(), 10).await.unwrap();
        world.engine.store().redrive(world.engine.now(), vec![letters[0].id], "redriven").await.unwrap();
        world.engine.store().cancel(world.engine.now(), letters[0].id, "mended".to_owned()).await.unwrap();
        assert_eq!(world.look_after(MINUTE).await, 1);
        world.deliver().await;
        let got = sink.got();
        assert_eq!((got.len(), got[3].body["what"].as_str()), (4, Some("resolved")));
        // Neither the address nor its headers are in the stream.
        let stream = world.stream().await;
        assert!(stream.contains("alert_fired") && stream.contains("alert_resolved"));
        for secret in ["verysecretpath", "topsecretheader"] {
            assert!(!stream.contains(secret), "{secret} is in the stream");
        }
        let report = world.engine.alerts().await.unwrap();
        assert!(
            !report.is_firing() && report.receivers[0].1 == redrive::shown_webhook(&sink.url()),
            "{:?}",
            report.receivers
        );
    });
}

/// R-C5: two thousand letters of one group are one message at once and one summary.
#[test]
fn two_thousand_letters_of_one_group_are_two_messages() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        assert_eq!(world.look_after(Duration::from_secs(1)).await, 1);
        // Messages that wait together are delivered together, in any order.
        world.deliver().await;
        world.die(1_999, "no such address").await;
        let mut told = 0;
        for _ in 0..30 {
            told += world.look_after(MINUTE).await;
        }
        world.deliver().await;
        let letters_per_hour = 1;
        assert_eq!(told, 1 + letters_per_hour);
        let of =
            |rule: &str| sink.got().into_iter().filter(|one| one.body["rule"] == rule).collect::<Vec<_>>();
        let got = of("dead_letters");
        let told: Vec<_> = got.iter().map(|one| one.body["what"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told, ["fired", "summary"]);
        assert_eq!(
            (got[1].body["more"].as_u64(), got[1].body["value"].as_f64()),
            (Some(1_999), Some(2_000.0))
        );
        assert_eq!(of("letters_per_hour").len(), 1, "two thousand within an hour are another rule's");
    });
}

/// R-C5, row 61: a message that cannot be delivered dies, and its letter raises no alert.
#[test]
fn an_alert_never_alerts_about_itself() {
    run(async {
        let sink = Sink::answering(&[400; 50]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        world.look_after(Duration::from_secs(1)).await;
        world.deliver().await;
        let filter = LetterFilter { queue: Some("redrive-alerts".to_owned()), ..LetterFilter::default() };
        assert_eq!(world.engine.store().count_letters(filter).await.unwrap(), 1);
        for _ in 0..10 {
            assert_eq!(world.look_after(MINUTE).await, 0);
        }
        let report = world.engine.alerts().await.unwrap();
        let letters = report.rules.iter().find(|one| one.finding.rule == AlertRule::DeadLetters).unwrap();
        assert_eq!(letters.finding.value, Some(1.0), "the letter of the message does not count");
        assert_eq!(sink.got().len(), 1, "what is refused for good is not sent again");
        let letters = world.engine.store().letters(LetterFilter::default(), 10).await.unwrap();
        let told = world.stream().await + &serde_json::to_string(&letters).unwrap();
        assert!(!told.contains("verysecretpath") && !told.contains("topsecretheader"), "{told}");
        let payloads = letters.iter().map(|letter| String::from_utf8_lossy(&letter.payload).into_owned());
        assert!(payloads.into_iter().all(|payload| !payload.contains("verysecretpath")));
    });
}

/// R-C5: groups that somebody has acknowledged do not count; a silence holds for its time.
#[test]
fn what_is_acknowledged_or_silenced_is_not_told() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        let new = NewSilence {
            of: "dead_letters".to_owned(),
            lasts: Duration::from_hours(1),
            why: Some("we know".to_owned()),
            by: "cli:ada".to_owned(),
        };
        world.engine.silence_alerts(new).await.unwrap();
        world.die(1, "no such address").await;
        assert_eq!(world.look_after(Duration::from_secs(1)).await, 0);
        assert_eq!(world.engine.silences().await.unwrap().len(), 1);
        assert!(world.engine.end_silence("dead_letters").await.unwrap());
        assert!(!world.engine.end_silence("dead_letters").await.unwrap());
        assert_eq!(world.look_after(MINUTE).await, 1);
        let group = world.engine.store().groups(GroupQuery::default(), 1).await.unwrap().remove(0);
        let store = world.engine.store();
        store
            .set_group_state(world.engine.now(), group.fingerprint, GroupState::Acknowledged, None)
            .await
            .unwrap();
        assert_eq!(world.look_after(MINUTE).await, 1, "it is over");
        assert!(!world.engine.alerts().await.unwrap().is_firing());
    });
}

/// R-C5: the worker that wrote the first letter has somebody told at once, and does not wait for the next look.
#[test]
fn the_first_letter_is_told_at_once() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        assert_eq!(world.look_after(Duration::ZERO).await, 0);
        world.engine.enqueue(redrive_store::NewJob::new("hopeless", "null")).await.unwrap();
        let worker = world.engine.worker().queues(["default"]).wait(Duration::from_millis(5));
        let worker = worker.handle("hopeless", |(): (), _: redrive::engine::Context| async {
            Err::<(), _>(redrive::fail(redrive::Cause::ValidationError, "no such address"))
        });
        let (shutdown, working) = (redrive::engine::Shutdown::new(), worker.register().await.unwrap());
        let ending = shutdown.clone();
        let told = async {
            // No time passes: what is told is told because a letter was written.
            while sink.got().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            ending.now();
        };
        let (ended, ()) = tokio::join!(working.run(&shutdown), told);
        ended.unwrap();
        assert_eq!(sink.got()[0].body["what"], "fired");
    });
}

/// R-C5: several engines look, and one tells.
#[test]
fn one_engine_tells() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        world.die(1, "no such address").await;
        let config = Config::parse(&config(&sink.url()), Format::Toml, "redrive.toml").unwrap();
        let mut looks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let engine = Engine::builder(world.engine.shared_store()).clock(world.clock.clone());
            let engine = engine.config(&config).build().unwrap();
            let keeper = world.keeper;
            looks.spawn(async move { engine.maintain(keeper).await.unwrap().alerts_told });
        }
        assert_eq!(looks.join_all().await.iter().sum::<u64>(), 1);
    });
}

/// Reliability row 61: a webhook that is this very server is refused before anything runs.
#[test]
fn a_webhook_to_ourselves_is_refused() {
    let config =
        Config::parse(&config("http://localhost:7411/v1/jobs"), Format::Toml, "redrive.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Engine::open_store(folder.path().join("redrive.db")).unwrap();
    let refused = Engine::builder(store).config(&config).build().unwrap_err().to_string();
    assert!(refused.contains("is this very server"), "{refused}");
}

/// R-C5: whoever works on some queue, or is only present, delivers messages all the same; who knows of nobody leaves them alone.
#[test]
fn a_worker_of_other_queues_delivers_messages() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        let ok = |(): (), _: Context| async { Ok::<_, redrive::Fail>(()) };
        let stranger = Engine::builder(world.engine.shared_store()).clock(Arc::clone(&world.clock) as _);
        let stranger = stranger.build().unwrap();
        for (round, only_present) in [false, true].into_iter().enumerate() {
            world.engine.test_alerts(None).await.unwrap();
            let executor = Arc::new(AlertExecutor::new().unwrap());
            let idle = stranger.worker().wait(Duration::from_millis(5)).executor(ALERT_KIND, executor);
            idle.handle("other", ok).run_until_empty().await.unwrap();
            assert_eq!(sink.got().len(), round, "it knows of nobody");
            let worker = world.engine.worker().queues(["mail"]).wait(Duration::from_millis(5));
            let worker = if only_present { worker.only_present() } else { worker.handle("mail", ok) };
            let shutdown = Shutdown::new();
            let working = worker.run(&shutdown);
            let told = async {
                while sink.got().len() == round {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                shutdown.signal();
            };
            tokio::join!(working, told).0.unwrap();
        }
    });
}

/// R-C5, Security: who may enqueue work over the API tells people nothing in our name.
#[test]
fn a_forged_message_is_refused() {
    run(async {
        let sink = Sink::answering(&[]).await;
        let world = World::new(&config(&sink.url())).await;
        let job = world.engine.test_alerts(None).await.unwrap()[0].1;
        let real = world.engine.store().job(job).await.unwrap().unwrap().job.unwrap();
        world.deliver().await;
        assert_eq!(sink.got().len(), 1);
        let forged = NewJob {
            queue: ALERT_QUEUE.to_owned(),
            origin: Origin::Api,
            ..NewJob::new(ALERT_KIND, real.payload)
        };
        world.engine.store().enqueue(world.engine.now(), vec![forged]).await.unwrap();
        world.deliver().await;
        assert_eq!(sink.got().len(), 1);
        let letters = world.engine.store().letters(LetterFilter::default(), 10).await.unwrap();
        assert_eq!(letters[0].error_type, "ForgedAlert");
    });
}
