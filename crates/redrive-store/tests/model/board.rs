//! Random changes of notices against the store and against a map of what must be up. Two handles take turns, versions of long ago are
//! used again, and each change brings jobs, some of them with a unique key.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redrive_store::{EventFilter, NewEvent, NewJob, NoticeChange, Posted, Store};

use crate::given::at;
use crate::{postgres, sqlite};

type Reached = RefCell<BTreeMap<&'static str, u64>>;

const STEPS: usize = 60;

/// Everything that must have happened at least once.
const TRANSITIONS: &[&str] =
    &["put up", "said anew", "taken down", "nothing taken down", "outrun", "job added", "job was there"];

/// What a change has seen.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// What is there.
    Now,
    /// Nothing.
    Nothing,
    /// A version of long ago, of whichever notice.
    Old(usize),
}

#[derive(Debug, Clone)]
struct Change {
    name: u8,
    seen: Seen,
    value: Option<u8>,
    due: Option<i64>,
}

#[derive(Debug, Clone)]
struct Post {
    changes: Vec<Change>,
    keyed: bool,
    jobs: usize,
}

fn posts() -> impl Strategy<Value = Vec<Post>> {
    let seen = prop_oneof![
        12 => Just(Seen::Now),
        1 => Just(Seen::Nothing),
        1 => (0..50_usize).prop_map(Seen::Old),
    ];
    let change = (0..5_u8, seen, prop::option::weighted(0.7, any::<u8>()), prop::option::of(0..100_i64))
        .prop_map(|(name, seen, value, due)| Change { name, seen, value, due });
    let post = (prop::collection::vec(change, 0..4), any::<bool>(), 0..3_usize)
        .prop_map(|(changes, keyed, jobs)| Post { changes, keyed, jobs });
    prop::collection::vec(post, 1..=STEPS)
}

#[derive(Debug, Clone, PartialEq)]
struct Up {
    version: i64,
    value: u8,
    due: Option<i64>,
}

#[derive(Default)]
struct Model {
    up: BTreeMap<u8, Up>,
    /// Every version that was ever given out.
    given: Vec<i64>,
    jobs: usize,
    has_key: bool,
    events: usize,
}

impl Model {
    async fn run(
        &mut self,
        store: &dyn Store,
        number: usize,
        post: &Post,
        reached: &Reached,
    ) -> Result<(), TestCaseError> {
        let reach = |name| *reached.borrow_mut().entry(name).or_default() += 1;
        let mut named = BTreeSet::new();
        // A notice is changed once at a time.
        let changes: Vec<&Change> = post.changes.iter().filter(|change| named.insert(change.name)).collect();
        let seen = |change: &Change| match change.seen {
            Seen::Now => self.up.get(&change.name).map(|up| up.version),
            Seen::Nothing => None,
            Seen::Old(at) => self.given.get(at).copied(),
        };
        let asked: Vec<NoticeChange> = changes
            .iter()
            .map(|change| NoticeChange {
                space: "target".to_owned(),
                name: change.name.to_string(),
                seen: seen(change),
                value: change.value.map(|value| value.to_string()),
                due_at: change.due.map(at),
            })
            .collect();
        let holds =
            changes.iter().all(|change| seen(change) == self.up.get(&change.name).map(|up| up.version));
        let mut jobs = vec![NewJob::new("tick", "1"); post.jobs];
        if post.keyed {
            jobs.push(NewJob { unique_key: Some("once".to_owned()), ..NewJob::new("tick", "1") });
        }
        let event = NewEvent { event_type: "ticked".into(), source: "model".into(), ..NewEvent::default() };
        let posted = store.post(at(i64::try_from(number).unwrap()), asked, jobs, vec![event]).await.unwrap();
        let Posted::Done { versions, jobs } = posted else {
            prop_assert!(!holds, "outrun by nobody");
            reach("outrun");
            return Ok(());
        };
        prop_assert!(holds, "somebody was faster, and that was not seen");
        self.events += 1;
        self.jobs += jobs.iter().filter(|job| !job.existing).count();
        if post.keyed {
            prop_assert_eq!(jobs.last().map(|job| job.existing), Some(self.has_key));
            reach(if self.has_key { "job was there" } else { "job added" });
            self.has_key = true;
        }
        for (change, version) in changes.iter().zip(versions) {
            prop_assert_eq!(version.is_some(), change.value.is_some());
            let before = match (change.value, version) {
                (Some(value), Some(version)) => {
                    prop_assert!(!self.given.contains(&version), "version {version} has returned");
                    self.given.push(version);
                    self.up.insert(change.name, Up { version, value, due: change.due })
                }
                _ => self.up.remove(&change.name),
            };
            reach(match (before.is_some(), change.value.is_some()) {
                (false, true) => "put up",
                (true, true) => "said anew",
                (true, false) => "taken down",
                (false, false) => "nothing taken down",
            });
        }
        Ok(())
    }

    async fn compare(&self, store: &dyn Store) -> Result<(), TestCaseError> {
        let said = |notice: redrive_store::Notice| {
            let (name, value): (u8, u8) = (notice.name.parse().unwrap(), notice.value.parse().unwrap());
            let due = notice.due_at.map(|due| due.millis() - at(0).millis());
            (name, Up { version: notice.version, value, due })
        };
        let found = store.notices("target".to_owned(), None, 100).await.unwrap();
        prop_assert_eq!(found.into_iter().map(said).collect::<BTreeMap<_, _>>(), self.up.clone());
        let due: Vec<u8> = store
            .due_notices(at(50), "target".to_owned(), 100)
            .await
            .unwrap()
            .into_iter()
            .map(|notice| said(notice).0)
            .collect();
        let mut times: Vec<i64> = self.up.values().filter_map(|up| up.due).filter(|due| *due <= 50).collect();
        times.sort_unstable();
        prop_assert_eq!(due.iter().filter_map(|name| self.up[name].due).collect::<Vec<_>>(), times);
        Ok(())
    }
}

async fn run_case(
    steps: &[Post],
    stores: &[Arc<dyn Store>],
    compared_every: usize,
    reached: &Reached,
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for (number, post) in steps.iter().enumerate() {
        model
            .run(&*stores[number % stores.len()], number, post, reached)
            .await
            .map_err(|error| TestCaseError::fail(format!("at step {number} {post:?}: {error}")))?;
        if number % compared_every == 0 || number + 1 == steps.len() {
            // Another handle must see it at once.
            model.compare(&*stores[(number + 1) % stores.len()]).await?;
        }
    }
    let status = stores[0].status(at(1_000)).await.unwrap();
    let ready: u64 = status.lanes.iter().map(|lane| lane.ready).sum();
    prop_assert_eq!(ready, model.jobs as u64);
    let filter = EventFilter { types: vec!["ticked".to_owned()], ..EventFilter::default() };
    prop_assert_eq!(stores[0].events(filter, 10_000).await.unwrap().len(), model.events);
    let report = stores[0].check().await.unwrap();
    prop_assert!(report.is_clean(), "{:?}", report.violations);
    for store in stores {
        store.close().await.unwrap();
    }
    Ok(())
}

fn sweep(on_postgres: bool, cases: u32) {
    let reached = Reached::default();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"redrive's board: all or nothing.");
    let outcome = TestRunner::new_with_rng(config, rng).run(&posts(), |steps| {
        if on_postgres {
            postgres(2, async |stores| run_case(&steps, stores, 12, &reached).await)
        } else {
            sqlite(2, async |stores| run_case(&steps, stores, 1, &reached).await)
        }
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let reached = reached.into_inner();
    println!("{cases} cases of up to {STEPS} posts reached: {reached:?}");
    let missed: Vec<_> = TRANSITIONS.iter().filter(|name| !reached.contains_key(*name)).collect();
    assert!(missed.is_empty(), "the generator never reached: {missed:?}");
}

/// R-D3, R-C5, reliability rows 15 and 16: two handles on one file do what the map does.
#[test]
fn the_board_does_what_the_model_does() {
    sweep(false, 60);
}

/// R-D3, R-C5, reliability rows 15 and 16: PostgreSQL, too.
#[test]
fn the_board_on_postgres_does_what_the_model_does() {
    if redrive_testing::shared().is_some() {
        sweep(true, 8);
    }
}
