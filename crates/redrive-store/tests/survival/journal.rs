//! The journal of what was acknowledged: a line per answer, written before the next wish, outside of the store.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use redrive_store::{
    Board, EventFilter, Events, Housekeeping, JobId, JobState, Jobs, LeaseToken, Leases, Settled, Settlement,
    Sqlite, StoreError,
};

use crate::given::{Hand, at, success};

pub(crate) struct Journal(Mutex<File>);

impl Journal {
    pub(crate) fn open(path: &Path) -> Journal {
        Journal(Mutex::new(OpenOptions::new().create(true).append(true).open(path).unwrap()))
    }

    fn line(&self, words: &str) {
        // One write: a line is there whole, or not at all.
        self.0.lock().unwrap().write_all(format!("{words}\n").as_bytes()).unwrap();
    }

    pub(crate) fn enqueued(&self, id: JobId) {
        self.line(&format!("enqueued {}", id.0));
    }

    pub(crate) fn begun(&self, token: LeaseToken) {
        self.line(&format!("begun {} {}", token.job.0, token.fence));
    }

    pub(crate) fn settled(&self, token: LeaseToken, how: &str) {
        self.line(&format!("settled {} {} {how}", token.job.0, token.fence));
    }

    pub(crate) fn redriven(&self, id: JobId) {
        self.line(&format!("redriven {}", id.0));
    }

    pub(crate) fn ticked(&self, ticks: i64) {
        self.line(&format!("ticked {ticks}"));
    }

    pub(crate) fn event(&self, id: &str) {
        self.line(&format!("event {id}"));
    }

    pub(crate) fn refused(&self, error: &StoreError) {
        self.line(&format!("refused {}", format!("{:?}", error.trouble()).replace(['\n', ' '], "_")));
    }

    pub(crate) fn finished(&self) {
        self.line("finished");
    }
}

/// What a journal says.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    pub(crate) enqueued: Vec<JobId>,
    pub(crate) begun: BTreeMap<JobId, usize>,
    pub(crate) settled: Vec<(LeaseToken, String)>,
    pub(crate) redriven: BTreeMap<JobId, usize>,
    pub(crate) events: Vec<String>,
    pub(crate) ticks: i64,
    pub(crate) finished: bool,
    pub(crate) lines: usize,
}

impl Acknowledged {
    pub(crate) fn read(path: &Path) -> Acknowledged {
        let mut all = Acknowledged::default();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            all.lines += 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<i64>().unwrap();
            match words[0] {
                "enqueued" => all.enqueued.push(JobId(number(1))),
                "begun" => *all.begun.entry(JobId(number(1))).or_default() += 1,
                "settled" => {
                    let token = LeaseToken { job: JobId(number(1)), fence: number(2) };
                    all.settled.push((token, words[3].to_owned()));
                }
                "redriven" => *all.redriven.entry(JobId(number(1))).or_default() += 1,
                "event" => all.events.push(words[1].to_owned()),
                "ticked" => all.ticks = all.ticks.max(number(1)),
                "refused" => {}
                "finished" => all.finished = true,
                other => panic!("the journal says {other}"),
            }
        }
        all
    }

    /// How much of it is not in the store. Nothing may be missing; the negative control counts.
    pub(crate) async fn missing(&self, store: &Sqlite) -> Vec<String> {
        let mut missing = Vec::new();
        for id in &self.enqueued {
            if store.job(*id).await.unwrap().is_none() {
                missing.push(format!("{id} was enqueued"));
            }
        }
        for id in &self.events {
            if store.event(id.clone()).await.unwrap().is_none() {
                missing.push(format!("event {id} was appended"));
            }
        }
        let found = store.notice("schedule".to_owned(), "ticks".to_owned()).await.unwrap();
        let ticks = found.map_or(0, |found| found.value.parse::<i64>().unwrap());
        let filter = EventFilter { types: vec!["ticked".to_owned()], ..EventFilter::default() };
        let told = store.events(filter, 100_000).await.unwrap().len();
        // What was not acknowledged may be there, but then all of it.
        if ticks < self.ticks || i64::try_from(told).unwrap() != ticks {
            missing.push(format!("{} ticks were acknowledged, {ticks} counted, {told} told", self.ticks));
        }
        for (token, how) in &self.settled {
            let Some(record) = store.job(token.job).await.unwrap() else {
                missing.push(format!("{} was settled", token.job));
                continue;
            };
            let over = record.state == JobState::Ended;
            let is_final = how == "succeeded" || how == "cancelled";
            if is_final && !over {
                missing.push(format!("{} has {how}", token.job));
            }
        }
        missing
    }

    /// Everything acknowledged is there, nothing was settled twice, attempts were counted once, and the store is whole
    /// (invariants I1, I2, I3, I5).
    pub(crate) async fn holds(&self, store: &Sqlite) {
        let hand = Hand(store);
        hand.clean().await;
        let missing = self.missing(store).await;
        assert!(missing.is_empty(), "acknowledged and lost: {missing:#?}");
        for id in &self.enqueued {
            let types = hand.types(*id).await;
            let count = |name: &str| types.iter().filter(|one| *one == name).count();
            assert_eq!(count("job_enqueued"), 1, "{id}: {types:?}");
            // At most one more of each than was told: the answer that the kill cut off.
            let begun = self.begun.get(id).copied().unwrap_or(0);
            assert!(
                (begun..=begun + 1).contains(&count("attempt_started")),
                "{id}: {begun} begun, {types:?}"
            );
            let redriven = self.redriven.get(id).copied().unwrap_or(0);
            assert!((redriven..=redriven + 1).contains(&count("redriven")), "{id}: {redriven}, {types:?}");
            let settled: Vec<_> = self.settled.iter().filter(|(token, _)| token.job == *id).collect();
            let ends = [
                "attempt_succeeded",
                "attempt_failed",
                "job_dead",
                "job_snoozed",
                "job_parked",
                "job_cancelled",
                "job_released",
            ];
            let told: usize = ends.into_iter().map(count).sum();
            assert!((settled.len()..=settled.len() + 2).contains(&told), "{id}: {settled:?}, {types:?}");
            assert!(count("attempt_succeeded") <= 1, "{id} succeeded twice");
        }
        // Whoever settled before may say it again: nothing comes of it.
        let again = self.settled.iter().map(|(token, _)| Settlement { token: *token, ending: success() });
        let again = store.settle(at(0), again.collect()).await.unwrap();
        assert!(again.into_iter().all(|settled| settled == Settled::Stale), "settled twice");
        hand.clean().await;
        store.status(at(0)).await.unwrap();
    }
}

/// I9: the checker itself sees what is lost, and what was settled though it is not.
#[tokio::test]
async fn a_journal_that_says_more_than_the_store_is_seen_through() {
    let home = tempfile::tempdir().unwrap();
    let store =
        Sqlite::open(&home.path().join("redrive.db"), redrive_store::SqliteOptions::default()).unwrap();
    let id = Hand(&store).add(crate::given::job("a")).await;
    let path = home.path().join("journal");
    let journal = Journal::open(&path);
    journal.enqueued(id);
    assert!(Acknowledged::read(&path).missing(&store).await.is_empty());
    journal.enqueued(JobId(99));
    journal.event("EVT-20261115-110332-00002a");
    journal.settled(LeaseToken { job: id, fence: 1 }, "succeeded");
    assert_eq!(Acknowledged::read(&path).missing(&store).await.len(), 3);
}
