//! All that can be seen of the store, against the model.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redrive_store::{EventFilter, JobId, JobState, LetterFilter, Order, Store};

use crate::anchor;
use crate::given::at;
use crate::reference::{Known, LANES, Place, Reference};

pub(crate) async fn compare(
    store: &dyn Store,
    model: &Reference,
    checked: bool,
) -> Result<(), TestCaseError> {
    for (id, known) in &model.jobs {
        compare_job(store, *id, known).await?;
    }
    compare_counts(store, model).await?;
    let present: Vec<_> = model
        .workers
        .iter()
        .filter(|(_, present)| at(present.expires_at) > at(model.now))
        .map(|(id, present)| (*id, at(present.expires_at)))
        .collect();
    let told = store.workers(at(model.now)).await.unwrap();
    prop_assert_eq!(told.iter().map(|one| (one.id, one.expires_at)).collect::<Vec<_>>(), present);
    if checked {
        let report = store.check().await.unwrap();
        prop_assert!(report.is_clean(), "{:#?}", report.violations);
    }
    Ok(())
}

async fn compare_job(store: &dyn Store, id: JobId, known: &Known) -> Result<(), TestCaseError> {
    let record = store.job(id).await.unwrap();
    let left = known.readable();
    let filter = EventFilter { job: Some(id), order: Order::OldestFirst, ..EventFilter::default() };
    let events = store.events(filter, 10_000).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.event_type.as_str(), event.timestamp)).collect();
    let expected: Vec<_> = left.iter().map(|told| (told.event_type, at(told.at))).collect();
    prop_assert_eq!(told, expected, "the story of {}", id);
    if known.is_forgotten() {
        prop_assert!(record.is_none(), "{id} is forgotten");
        return Ok(());
    }
    let Some(record) = record else { return Err(TestCaseError::fail(format!("{id} is lost"))) };
    let own = events.iter().zip(&left).rfind(|(_, told)| !told.beside).map(|(event, _)| event.seq);
    prop_assert_eq!(Some(record.event), own);
    if !known.is_over() {
        prop_assert_eq!(
            (record.attempts, record.retries, record.crashes),
            (known.attempts, known.retries, known.crashes),
            "the counts of {}",
            id
        );
    }
    let same = match (&known.place, &record.state) {
        (Place::Ready { run_at, held_for }, JobState::Ready { run_at: due, held_for: held }) => {
            at(*run_at) == *due && held_for == held
        }
        (
            Place::Leased { worker, expires_at, begun, cancel, .. },
            JobState::Leased { worker: has, expires_at: until, begun_at, cancel_requested, .. },
        ) => (worker, at(*expires_at), *begun, cancel) == (has, *until, begun_at.is_some(), cancel_requested),
        (Place::Dead { died_at, cause }, JobState::Dead(letter)) => {
            (at(*died_at), *cause, known.redrives) == (letter.died_at, letter.cause, letter.redrives)
        }
        (Place::Ended, JobState::Ended) => true,
        _ => false,
    };
    prop_assert!(same, "{id}: {:?}, the store says {:?}", known.place, record.state);
    Ok(())
}

async fn compare_counts(store: &dyn Store, model: &Reference) -> Result<(), TestCaseError> {
    let status = store.status(at(model.now)).await.unwrap();
    let counts = model.counts();
    let mut lanes = Vec::new();
    for (number, (queue, kind)) in LANES.iter().enumerate().filter(|(number, _)| model.made[*number]) {
        let open: Vec<i64> = model
            .jobs
            .values()
            .filter(|known| known.lane == number)
            .filter_map(|known| match known.place {
                Place::Ready { run_at, .. } => Some(run_at),
                _ => None,
            })
            .collect();
        let (ready, leased, dead) = counts.get(&number).copied().unwrap_or_default();
        lanes.push(redrive_store::LaneCounts {
            queue: (*queue).to_owned(),
            kind: (*kind).to_owned(),
            ready,
            scheduled: open.iter().filter(|run_at| **run_at > model.now).count() as u64,
            leased,
            dead,
            succeeded: model.succeeded[number],
            cancelled: model.cancelled[number],
            oldest_due: open.iter().filter(|run_at| **run_at <= model.now).min().map(|run_at| at(*run_at)),
            paused_at: None,
        });
    }
    let seen: Vec<_> = status.lanes.into_iter().filter(|lane| lane.kind != anchor::KIND).collect();
    prop_assert_eq!(&seen, &lanes);
    let letters: u64 = lanes.iter().map(|lane| lane.dead).sum::<u64>() + 1;
    prop_assert_eq!((status.dead_letters, status.by_cause.values().sum::<u64>()), (letters, letters));
    let listed = store.letters(LetterFilter::default(), 10_000).await.unwrap();
    prop_assert_eq!(listed.len() as u64, letters);
    let kept = model.stream.iter().filter(|(_, _, pruned)| !pruned).count() as u64;
    prop_assert_eq!(status.events, kept);
    let failed = model
        .jobs
        .values()
        .flat_map(|known| &known.story)
        .filter(|told| !told.pruned && told.event_type == "job_cancelled")
        .count() as u64;
    prop_assert_eq!(status.failed_events, failed);
    Ok(())
}
