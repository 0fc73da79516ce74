//! The fixed script that is killed again and again: a few hundred operations of every kind, some of them by several
//! callers at once, so that group commits are cut, too.

use std::sync::Arc;

use redrive_policy::Cause;
use redrive_store::{
    Board, DeadLetters, Ending, Events, Housekeeping, JobId, Jobs, LeaseRequest, LeasedJob, Leases,
    LetterFilter, NewEvent, NewJob, NoticeChange, Posted, Redriven, Settled, Settlement, Sqlite, Timestamp,
    Workers,
};
use tokio::task::JoinSet;

use crate::given::{LEASE, SECOND, at, cancelled, dead, parked, released, retry, success, wants};
use crate::journal::Journal;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// Each run of the script on one store has an hour of its own, so that leases of the run before have expired.
    pub(crate) hour: i64,
    pub(crate) rounds: i64,
    pub(crate) payload_bytes: usize,
}

impl Script {
    fn now(self, round: i64) -> Timestamp {
        at(self.hour * 3_600_000 + round * 1_000)
    }

    pub(crate) async fn run(self, store: &Arc<Sqlite>, journal: &Arc<Journal>) {
        let worker = store.register(self.now(0), "script".to_owned(), SECOND * 3_000).await.unwrap();
        // What expired an hour ago is asked for once more, and taken over one lease later.
        assert!(store.seize_expired(self.now(0), worker, LEASE, 1_000).await.unwrap().is_empty());
        let later = self.now(0).after(LEASE);
        for seized in store.seize_expired(later, worker, LEASE, 1_000).await.unwrap() {
            let ending = if seized.begun { retry(self.now(0)) } else { released() };
            settle(store, journal, self.now(0), &seized.leased, ending).await;
        }
        for round in 0..self.rounds {
            self.bring_work(store, journal, round).await;
            let now = self.now(round);
            let mut leased = store.lease(now, wants(worker, &["a", "b"], 6)).await.unwrap();
            for leased in &leased {
                journal.begun(leased.token);
            }
            let request = LeaseRequest { begin: false, ..wants(worker, &["a", "b"], 3) };
            let later = store.lease(now, request).await.unwrap();
            let tokens = later.iter().map(|leased| leased.token).collect();
            store.begin(now, tokens).await.unwrap();
            for leased in &later {
                journal.begun(leased.token);
            }
            leased.extend(later);
            let tokens = leased.iter().map(|leased| leased.token).collect();
            store.renew(now, worker, SECOND * 3_000, tokens).await.unwrap();
            self.settle_all(store, journal, now, leased).await;
            self.look_after(store, journal, now, round).await;
        }
    }

    /// Several callers at once.
    async fn bring_work(self, store: &Arc<Sqlite>, journal: &Arc<Journal>, round: i64) {
        let mut callers = JoinSet::new();
        for caller in 0..4_usize {
            let (store, journal, now) = (Arc::clone(store), Arc::clone(journal), self.now(round));
            callers.spawn(async move {
                let kind = if caller % 2 == 0 { "a" } else { "b" };
                let new = NewJob {
                    caller_id: Some(format!("{round}-{caller}")),
                    unique_key: (caller == 3).then(|| format!("{}-{round}", self.hour)),
                    priority: i32::try_from(caller).unwrap(),
                    ..NewJob::new(kind, vec![7; self.payload_bytes])
                };
                let added = store.enqueue(now, vec![new; if caller == 0 { 3 } else { 1 }]).await.unwrap();
                for one in added {
                    journal.enqueued(one.id);
                }
                let event =
                    NewEvent { event_type: "note".into(), source: "script".into(), ..NewEvent::default() };
                let told = store.append(now, vec![event]).await.unwrap();
                journal.event(&told[0].1);
            });
        }
        callers.join_all().await;
    }

    async fn settle_all(
        self,
        store: &Arc<Sqlite>,
        journal: &Arc<Journal>,
        now: Timestamp,
        leased: Vec<LeasedJob>,
    ) {
        let mut callers = JoinSet::new();
        for leased in leased {
            let (store, journal) = (Arc::clone(store), Arc::clone(journal));
            callers.spawn(async move {
                let ending = match (leased.token.job.0 + i64::from(leased.attempt)) % 8 {
                    0 => retry(now.after(SECOND)),
                    1 => dead(Cause::Network, "scripted"),
                    2 => Ending::Snoozed { run_at: now.after(SECOND), held_for: None },
                    3 => released(),
                    5 => parked(now.after(SECOND), None),
                    4 => cancelled(),
                    _ => success(),
                };
                settle(&store, &journal, now, &leased, ending).await;
            });
        }
        callers.join_all().await;
    }

    /// A tick: the notice that counts it, its job and its event come together.
    async fn tick(store: &Sqlite, journal: &Journal, now: Timestamp) {
        let (space, name) = ("schedule".to_owned(), "ticks".to_owned());
        let found = store.notice(space.clone(), name.clone()).await.unwrap();
        let ticks = found.as_ref().map_or(0, |found| found.value.parse::<i64>().unwrap()) + 1;
        let seen = found.map(|found| found.version);
        let change = NoticeChange { space, name, seen, value: Some(ticks.to_string()), due_at: Some(now) };
        let event = NewEvent { event_type: "ticked".into(), source: "script".into(), ..NewEvent::default() };
        let posted =
            store.post(now, vec![change], vec![NewJob::new("a", "tick")], vec![event]).await.unwrap();
        let Posted::Done { jobs, .. } = posted else { panic!("nobody else ticks") };
        journal.enqueued(jobs[0].id);
        journal.ticked(ticks);
    }

    async fn look_after(self, store: &Sqlite, journal: &Journal, now: Timestamp, round: i64) {
        Script::tick(store, journal, now).await;
        let letters = store.letters(LetterFilter::default(), 2).await.unwrap();
        let ids: Vec<JobId> = letters.iter().map(|letter| letter.id).collect();
        let told = store.redrive(now, ids.clone(), "redriven").await.unwrap();
        for (id, told) in ids.into_iter().zip(told) {
            if told == Redriven::Ready {
                journal.redriven(id);
            }
        }
        if round % 4 == 3 {
            // Nothing is old enough to go; looking for it is a write all the same.
            store.prune(now, at(-1), at(-1), 100).await.unwrap();
        }
    }

    /// Takes everything that is left to its end.
    pub(crate) async fn drain(self, store: &Arc<Sqlite>, journal: &Arc<Journal>) {
        let worker = store.register(self.now(0), "drain".to_owned(), SECOND * 3_000).await.unwrap();
        for round in self.rounds..self.rounds + 1_000 {
            let now = self.now(round);
            let leased = store.lease(now, wants(worker, &["a", "b"], 100)).await.unwrap();
            if leased.is_empty() && !store.unfinished(Vec::new(), Vec::new()).await.unwrap() {
                return;
            }
            for leased in leased {
                journal.begun(leased.token);
                settle(store, journal, now, &leased, success()).await;
            }
        }
        panic!("it never ends");
    }
}

async fn settle(store: &Sqlite, journal: &Journal, now: Timestamp, leased: &LeasedJob, ending: Ending) {
    let how = match &ending {
        Ending::Succeeded { .. } => "succeeded",
        Ending::Retry { .. } => "retry",
        Ending::Dead { .. } => "dead",
        Ending::Snoozed { .. } => "snoozed",
        Ending::Parked { .. } => "parked",
        Ending::Cancelled { .. } => "cancelled",
        Ending::Released { .. } => "released",
    };
    let settled = store.settle(now, vec![Settlement { token: leased.token, ending }]).await.unwrap();
    assert!(matches!(settled[0], Settled::Done { .. }), "{:?} was stale", leased.token);
    journal.settled(leased.token, how);
}
