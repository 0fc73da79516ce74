//! Redrives as runs: their steps, their rate, who moves them on, and the rules that begin them by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redrive::engine::{Canary, EndedWhy, Engine, ManualClock, RedriveRequest, Turn, Which};
use redrive::{Cause, Fail, fail};
use redrive_policy::AutoRedrive;
use redrive_store::{
    EventFilter, GroupQuery, GroupState, LetterFilter, RunId, RunState, Sqlite, SqliteOptions, Timestamp,
};

/// A store with letters, a clock that moves when told, and work that fails as it is told.
struct Place {
    engine: Engine,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new(rules: &[AutoRedrive]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redrive.db");
        let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let mut builder = Engine::builder(store).clock(Arc::clone(&clock) as Arc<_>).seed(1);
        for rule in rules {
            builder = builder.auto_redrive(rule.clone());
        }
        Place { engine: builder.build().unwrap(), clock, _folder: folder }
    }

    async fn enqueue(&self, jobs: u64) {
        let once = redrive::Override { max_retries: Some(0), ..redrive::Override::default() };
        let jobs = (0..jobs).map(|n| self.engine.job("call", &n).overrides(&once).build().unwrap()).collect();
        self.engine.enqueue_many(jobs).await.unwrap();
    }

    /// Runs what is due; each job answers as `answer` says.
    async fn work(&self, answer: impl Fn(u64) -> Result<(), Fail> + Send + Sync + 'static) {
        let answer = Arc::new(answer);
        let worker = self.engine.worker().concurrency(8).handle("call", move |number: u64, _| {
            let answer = Arc::clone(&answer);
            async move { answer(number) }
        });
        worker.run_until_empty().await.unwrap();
    }

    /// So many letters, dead of this.
    async fn letters(&self, count: u64, cause: Cause, words: &'static str) {
        self.enqueue(count).await;
        self.work(move |_| Err(fail(cause, words))).await;
    }

    async fn drive(&self, id: RunId) -> Turn {
        self.engine.drive(id, -7).await.unwrap()
    }

    /// Turns until nothing more can be done without work or time.
    async fn drive_on(&self, id: RunId) -> Turn {
        loop {
            let turn = self.drive(id).await;
            if turn.again_in != Some(Duration::ZERO) {
                return turn;
            }
        }
    }

    async fn state_of_group(&self) -> (GroupState, i64) {
        let groups = self.engine.store().groups(GroupQuery::default(), 10).await.unwrap();
        let first = groups.iter().min_by_key(|group| group.first_seen).unwrap();
        (first.state, first.counts.letters)
    }

    async fn dead(&self) -> u64 {
        self.engine.store().count_letters(LetterFilter::default()).await.unwrap()
    }
}

fn canary() -> RedriveRequest {
    RedriveRequest { canary: Some(Canary::default()), ..RedriveRequest::new(Which::All) }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

/// R-D9: 1, then 10, then 10 %, then all; each step waits for the first attempts of the one before.
#[test]
fn a_canary_grows_step_by_step_and_resolves_the_group() {
    run(async {
        let place = Place::new(&[]);
        place.letters(200, Cause::Network, "connection refused").await;
        let id = place.engine.start_redrive(canary()).await.unwrap();
        for (step, back) in [(1, 1), (2, 11), (3, 31), (4, 200)] {
            let turn = place.drive_on(id).await;
            assert_eq!((turn.run.step(), turn.run.moved), (Some(step), back));
            assert!(turn.run.is_judging() && turn.again_in.is_some());
            assert_eq!(place.dead().await, 200 - back, "the others are not touched");
            // Nothing goes on before the first attempts have ended.
            assert_eq!(place.drive_on(id).await.run.moved, back);
            place.work(|_| Ok(())).await;
        }
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, turn.again_in), (RunState::Done, None));
        let tally = turn.tally.unwrap();
        assert_eq!((tally.succeeded, tally.failed, tally.unknown), (200, 0, 0));
        assert_eq!(place.state_of_group().await, (GroupState::Resolved, 0));
    });
}

/// R-D9, R-D10: what is not mended is found out by one letter; the others stay dead, and the group has regressed.
#[test]
fn a_canary_stops_after_its_first_step_when_nothing_is_mended() {
    run(async {
        let place = Place::new(&[]);
        place.letters(50, Cause::Network, "connection refused").await;
        let id = place.engine.start_redrive(canary()).await.unwrap();
        place.drive_on(id).await;
        place.work(|_| Err(fail(Cause::Network, "connection refused"))).await;
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, turn.run.moved), (RunState::Stopped, 1));
        assert_eq!(turn.run.why, Some(EndedWhy::Failures { failed: 1, of: 1 }));
        assert_eq!(place.state_of_group().await, (GroupState::Regressed, 50));
        let untouched = place.engine.letters_where("redrives=0", place.engine.now()).unwrap();
        assert_eq!(place.engine.store().count_letters(untouched).await.unwrap(), 49);
    });
}

/// R-D9: a step is judged on first attempts: one that heals at its second attempt has failed its first.
#[test]
fn a_canary_looks_at_first_attempts_only() {
    run(async {
        let place = Place::new(&[]);
        let jobs = (0..3_u64).map(|n| place.engine.job("call", &n).build().unwrap()).collect();
        place.engine.enqueue_many(jobs).await.unwrap();
        place.work(|_| Err(fail(Cause::ValidationError, "no amount"))).await;
        let id = place.engine.start_redrive(canary()).await.unwrap();
        place.drive_on(id).await;
        // Fails in a way that is retried, so that no letter comes of it at once.
        let tries = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&tries);
        let worker = place.engine.worker().handle("call", move |_: u64, _| {
            let first = seen.fetch_add(1, Ordering::Relaxed) == 0;
            async move { if first { Err(fail(Cause::ValidationError, "no amount")) } else { Ok(()) } }
        });
        worker.run_until_empty().await.unwrap();
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, tries.load(Ordering::Relaxed)), (RunState::Stopped, 1));
    });
}

/// R-D9: a kind of failure that these letters did not have stops it, although one in a hundred may fail.
#[test]
fn a_new_kind_of_failure_stops_a_canary() {
    run(async {
        let place = Place::new(&[]);
        place.letters(300, Cause::Network, "connection refused").await;
        let id = place.engine.start_redrive(canary()).await.unwrap();
        // What is new is newer than what was there.
        place.clock.advance(Duration::from_millis(1));
        place.drive_on(id).await;
        place.work(|_| Ok(())).await;
        place.drive_on(id).await;
        place.work(|_| Ok(())).await;
        place.drive_on(id).await;
        place
            .work(
                |number| {
                    if number == 20 { Err(fail(Cause::ValidationError, "no column amount")) } else { Ok(()) }
                },
            )
            .await;
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, turn.run.moved), (RunState::Stopped, 41));
        assert!(matches!(turn.run.why, Some(EndedWhy::NewKind { failed: 1, .. })), "{:?}", turn.run.why);
        assert_eq!(place.dead().await, 260, "259 were not touched, and one died of something new");
    });
}

/// R-D8: no faster than asked for, whoever looks how often.
#[test]
fn a_rate_is_kept_to() {
    run(async {
        let place = Place::new(&[]);
        place.letters(30, Cause::Network, "connection refused").await;
        let request = RedriveRequest { rate: Some(10.0), ..RedriveRequest::new(Which::All) };
        let id = place.engine.start_redrive(request).await.unwrap();
        let mut back = Vec::new();
        for _ in 0..5 {
            let turn = place.drive_on(id).await;
            back.push(turn.run.moved);
            place.clock.advance(Duration::from_millis(500));
        }
        assert_eq!(back, [1, 6, 11, 16, 21]);
    });
}

/// R-D8: what fails again is not taken again by the same run, at any clock.
#[test]
fn what_dies_again_is_not_taken_twice() {
    run(async {
        let place = Place::new(&[]);
        place.letters(5, Cause::Network, "connection refused").await;
        let request = RedriveRequest { rate: Some(1.0), ..RedriveRequest::new(Which::All) };
        let id = place.engine.start_redrive(request).await.unwrap();
        for _ in 0..20 {
            place.drive_on(id).await;
            // The clock stands still: what dies now died at the same millisecond as the others.
            place.work(|_| Err(fail(Cause::Network, "connection refused"))).await;
            place.clock.advance(Duration::from_secs(1));
        }
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, turn.run.moved, turn.run.skipped), (RunState::Done, 5, 0));
    });
}

/// R-D8: a run that is cancelled leaves what it has not touched, and nobody moves it on any more.
#[test]
fn a_cancelled_run_stays_where_it_is() {
    run(async {
        let place = Place::new(&[]);
        place.letters(30, Cause::Network, "connection refused").await;
        let request = RedriveRequest { rate: Some(10.0), ..RedriveRequest::new(Which::All) };
        let id = place.engine.start_redrive(request).await.unwrap();
        place.drive_on(id).await;
        assert!(place.engine.cancel_redrive(id, Some("wrong ones".to_owned())).await.unwrap());
        assert!(!place.engine.cancel_redrive(id, None).await.unwrap(), "it is over");
        place.clock.advance(Duration::from_secs(10));
        let turn = place.drive(id).await;
        assert_eq!((turn.run.state, turn.run.moved, turn.again_in), (RunState::Cancelled, 1, None));
        assert_eq!(turn.run.why, Some(EndedWhy::Cancelled { said: Some("wrong ones".to_owned()) }));
        assert_eq!(place.dead().await, 29);
    });
}

/// R-D8: two who move one run on do not get in each other's way, and one who falls silent is followed by the other.
#[test]
fn one_moves_a_run_on_until_it_falls_silent() {
    run(async {
        let place = Place::new(&[]);
        place.letters(30, Cause::Network, "connection refused").await;
        let request = RedriveRequest { rate: Some(1.0), ..RedriveRequest::new(Which::All) };
        let id = place.engine.start_redrive(request).await.unwrap();
        assert_eq!(place.engine.drive(id, -1).await.unwrap().run.moved, 1);
        place.clock.advance(Duration::from_secs(2));
        assert_eq!(place.engine.drive(id, -2).await.unwrap().run.moved, 1, "the first one has it");
        place.clock.advance(Duration::from_secs(4));
        assert!(place.engine.drive(id, -2).await.unwrap().run.moved > 1, "the first one is silent for long");
        place.engine.leave_redrive(id, -2).await.unwrap();
        place.clock.advance(Duration::from_secs(1));
        assert!(place.engine.drive(id, -1).await.unwrap().run.moved > 2, "the second one let go");
    });
}

/// R-D8: only what a filter names goes back, at most so many, the oldest first.
#[test]
fn a_filter_and_a_limit_bound_a_run() {
    run(async {
        let place = Place::new(&[]);
        place.letters(10, Cause::Network, "connection refused").await;
        place.clock.advance(Duration::from_secs(1));
        place.letters(10, Cause::ValidationError, "no amount").await;
        let which = Which::Where("cause=network".to_owned());
        let request = RedriveRequest { limit: Some(4), ..RedriveRequest::new(which) };
        let preview = place.engine.preview_redrive(&request).await.unwrap();
        assert_eq!((preview.matching, preview.count, preview.sample.len()), (10, 4, 4));
        assert_eq!(preview.nobody_takes, [("default".to_owned(), "call".to_owned())]);
        assert_eq!((preview.would[0].cause, preview.would[0].max_retries), (Cause::Network, 0));
        let id = place.engine.start_redrive(request).await.unwrap();
        let turn = place.drive_on(id).await;
        assert_eq!((turn.run.state, turn.run.moved), (RunState::Done, 4));
        assert_eq!(place.dead().await, 16);
        let error = place.engine.letters_where("cuase=network", place.engine.now()).unwrap_err();
        assert!(error.to_string().contains("filter"), "{error}");
    });
}

/// R-D11: letters whose cause may have healed go back by rule, one first; validation errors are reported, and stay.
#[test]
fn a_rule_recovers_what_has_healed_and_reports_the_rest() {
    run(async {
        let rule = AutoRedrive::new("heal", "age>10m");
        let place = Place::new(&[rule]);
        place.letters(20, Cause::Network, "connection refused").await;
        place.letters(3, Cause::ValidationError, "no amount").await;
        let worker = place.engine.worker().handle("call", |_: u64, _| async { Ok::<(), Fail>(()) });
        let worker = worker.register().await.unwrap();
        assert_eq!(
            place.engine.maintain(worker.id()).await.unwrap().recoveries_begun,
            0,
            "they are too young"
        );
        place.clock.advance(Duration::from_mins(11));
        let mut begun = 0;
        for _ in 0..3 {
            begun += place.engine.maintain(worker.id()).await.unwrap().recoveries_begun;
        }
        assert_eq!(begun, 1, "one redrive at a time");
        drop(worker);
        let runs = place.engine.redrive_runs(true, 10).await.unwrap();
        assert_eq!((runs.len(), runs[0].wanted_by.as_str(), runs[0].plan.total), (1, "rule:heal", 20));
        for _ in 0..5 {
            place.drive_on(runs[0].id).await;
            place.work(|_| Ok(())).await;
        }
        let run = place.engine.redrive_run(runs[0].id).await.unwrap().unwrap();
        assert_eq!((run.state, run.moved), (RunState::Done, 20));
        assert_eq!(place.dead().await, 3, "validation errors stay");
        let filter = EventFilter { types: vec!["redrive_started".to_owned()], ..EventFilter::default() };
        let told = place.engine.store().events(filter, 10).await.unwrap();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].data["plan"]["left_alone"]["validation_error"], 3, "{}", told[0].data);
    });
}

/// R-D11: a rule that cannot be obeyed is refused before any work begins.
#[test]
fn a_rule_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap());
    for (filter, rate, expected) in
        [("cuase=network", None, "heal"), ("cause=network", Some("fast".to_owned()), "fast")]
    {
        let rule = AutoRedrive { rate, ..AutoRedrive::new("heal", filter) };
        let error = Engine::builder(Arc::clone(&store) as Arc<_>).auto_redrive(rule).build().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
