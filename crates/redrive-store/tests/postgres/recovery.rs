//! Groups and runs where many write at once, and stores from before there were any (reliability rows 39 and 42).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    DeadLetters, EventFilter, Events, GroupQuery, GroupState, Groups, Housekeeping, JobId, KeyRing, Leases,
    LetterFilter, NewJob, NewRun, Postgres, PostgresOptions, Redriven, Redrives, RunState, RunStep,
    Settlement,
};
use redrive_testing::shared;
use serde_json::json;

use crate::given::{Hand, at, dead, job, success, wants};
use crate::ground::{bounded, open, psql};

const FIRST: &str = include_str!("../../migrations/postgres/0001_jobs.sql");

/// What each table has, of a schema.
fn columns(url: &str, schema: &str) -> String {
    psql(
        url,
        &format!(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns \
             WHERE table_schema = '{schema}' AND table_name <> 'migration' ORDER BY 1, 2"
        ),
    )
}

/// Takes back what the migrations from the second on made, as if the binary before it had written everything.
fn take_back(url: &str, schema: &str) {
    psql(
        url,
        &format!(
            "SET search_path = {schema}; \
             ALTER TABLE dead_letter ADD COLUMN context text, ADD COLUMN report text; \
             UPDATE dead_letter d SET context = r.context, report = r.report FROM letter_report r WHERE r.job_id = d.job_id; \
             ALTER TABLE dead_letter ALTER COLUMN context SET NOT NULL, ALTER COLUMN report SET NOT NULL, \
                 DROP COLUMN caller_id, DROP COLUMN run_id; \
             DROP TABLE letter_report, letter_group, group_delta, redrive_run, redrive_item, payload_version, hour_count; \
             ALTER TABLE delta DROP COLUMN hours; \
             ALTER TABLE progress DROP COLUMN fingerprint, DROP COLUMN run_id, DROP COLUMN redriven_at; \
             ALTER TABLE worker DROP COLUMN queues, DROP COLUMN kinds; \
             ALTER TABLE queue DROP COLUMN paused_at, DROP COLUMN paused_why; \
             DROP INDEX IF EXISTS dead_letter_cause, dead_letter_lane; \
             UPDATE lease SET flags = flags & 7; \
             DROP TABLE task, task_plan, subtask, escalation_ack; \
             DROP TABLE idempotency_keys, outbox, outbox_lane, saved_key, notice; \
             ALTER TABLE job DROP COLUMN target; \
             DELETE FROM migration WHERE number >= 2"
        ),
    );
}

/// Row 42: letters, waiting, running and redriven jobs of a store from before, encrypted or not, come through whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_from_before_comes_through_whole() {
    let Some(shared) = shared() else { return };
    let key = KeyRing::generate("k").unwrap();
    for keys in [None, Some(KeyRing::parse("k", &key).unwrap())] {
        let schema = shared.schema();
        let options = || PostgresOptions {
            schema: Some(schema.clone()),
            caller_clock: true,
            keys: keys.clone(),
            ..PostgresOptions::default()
        };
        let store = Postgres::open(shared.url(), options()).await.unwrap();
        let hand = Hand(&store);
        let worker = hand.worker().await;
        let mine = NewJob { caller_id: Some("mine".to_owned()), ..job("a") };
        let first = hand.letter(at(1), worker, mine, Cause::Network).await;
        let second = hand.letter(at(2), worker, job("b"), Cause::Network).await;
        let redriven = hand.letter(at(3), worker, job("c"), Cause::Network).await;
        let running = hand.letter(at(3), worker, job("d"), Cause::Network).await;
        store.redrive(at(4), vec![redriven, running], "redrive").await.unwrap();
        let token = hand.take(at(5), worker, &["d"]).await.token;
        let waits = hand.add_at(at(5), job("e")).await;
        let before = store.letters(LetterFilter::default(), 9).await.unwrap();
        store.close().await.unwrap();
        take_back(shared.url(), &schema);
        let plain = shared.schema();
        psql(shared.url(), &format!("CREATE SCHEMA {plain}"));
        psql(shared.url(), &FIRST.replace("redrive.", &format!("{plain}.")));
        assert_eq!(
            columns(shared.url(), &schema),
            columns(shared.url(), &plain),
            "this is not the first schema"
        );

        let store = Postgres::open(shared.url(), options()).await.unwrap();
        let hand = Hand(&store);
        assert_eq!(store.letters(LetterFilter::default(), 9).await.unwrap(), before);
        let caller = LetterFilter { caller_id: Some("mine".to_owned()), ..LetterFilter::default() };
        assert_eq!(store.count_letters(caller).await.unwrap(), 1);
        let group = store.groups(GroupQuery::default(), 9).await.unwrap().remove(0);
        assert_eq!((group.counts.letters, group.counts.under_way, group.state), (2, 0, GroupState::Open));
        assert_eq!((group.sample.as_str(), group.first_seen, group.last_seen), ("it is dead", at(1), at(2)));
        assert_eq!((group.cause, group.error_type.as_str()), (Cause::Network, "TestError"));
        hand.clean().await;
        // What was put back before there were groups ends as ever; what is put back now is followed.
        hand.done(at(6), token, success()).await;
        let leased = hand.take(at(6), worker, &["c"]).await;
        assert_eq!(leased.token.job, redriven);
        hand.done(at(6), leased.token, dead(Cause::Network, "it is dead")).await;
        assert_eq!(hand.take(at(6), worker, &["e"]).await.token.job, waits);
        store.redrive(at(7), vec![first, second], "redrive").await.unwrap();
        for kind in ["a", "b"] {
            let leased = hand.take(at(8), worker, &[kind]).await;
            hand.done(at(8), leased.token, success()).await;
        }
        store.discard(at(9), vec![redriven], "letter_discarded", None).await.unwrap();
        let group = store.groups(GroupQuery::default(), 9).await.unwrap().remove(0);
        assert_eq!((group.counts.letters, group.counts.recovered, group.state), (0, 2, GroupState::Resolved));
        hand.clean().await;
        store.close().await.unwrap();
    }
}

/// Moves a run on until it finds nothing more; answers what it has put back.
async fn move_on(store: &Postgres, run: redrive_store::RunId, step: u32) -> Vec<JobId> {
    let mut back = Vec::new();
    loop {
        let known = store.run(run).await.unwrap().unwrap();
        if known.state != RunState::Running {
            return back;
        }
        let filter = LetterFilter { not_by: Some(run), oldest_first: true, ..LetterFilter::default() };
        let ids: Vec<JobId> =
            store.letter_heads(filter, 7, 1_000).await.unwrap().heads.iter().map(|head| head.id).collect();
        let over = ids.is_empty();
        let step = RunStep {
            run,
            version: known.version,
            ids: ids.clone(),
            judged_in: Some(step),
            progress: json!({ "at": known.version }),
            state: if over { RunState::Done } else { RunState::Running },
            why: None,
        };
        if let Some(stepped) = store.advance_run(at(10), step).await.unwrap() {
            let ready = ids.iter().zip(stepped.redriven).filter(|(_, what)| *what == Redriven::Ready);
            back.extend(ready.map(|(id, _)| *id));
        }
    }
}

/// Row 39, R-D9: processes that move one run on at once put no letter back twice and leave none behind, and the run ends once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_move_one_run_on() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(open(shared.url(), &schema).await));
    }
    let hand = Hand(&*stores[0]);
    let worker = hand.worker().await;
    let mut letters = Vec::new();
    for number in 0..60 {
        letters.push(hand.letter(at(number), worker, job("a"), Cause::Network).await);
    }
    let new = NewRun { wanted_by: "test".to_owned(), plan: json!({}), progress: json!({}) };
    let run = stores[0].start_run(at(10), new).await.unwrap();
    let mut moving = tokio::task::JoinSet::new();
    for (number, store) in stores.iter().cloned().enumerate() {
        moving.spawn(async move { move_on(&store, run, u32::try_from(number).unwrap()).await });
    }
    let mut back: Vec<JobId> = bounded("the run", moving.join_all()).await.concat();
    back.sort_unstable();
    assert_eq!(back, letters, "each is put back once");
    let judged: u64 = stores[0].judged(run, None).await.unwrap().iter().map(|judged| judged.jobs).sum();
    assert_eq!(judged, 60);
    let ended = EventFilter { types: vec!["redrive_ended".to_owned()], ..EventFilter::default() };
    assert_eq!(stores[0].events(ended, 9).await.unwrap().len(), 1);
    for store in stores {
        Hand(&*store).clean().await;
        store.close().await.unwrap();
    }
}

/// One process that lets jobs die, redrives what it finds, and lets some of it succeed, for as long as it is told.
async fn dies_and_redrives(store: &Postgres, number: u32) {
    let hand = Hand(store);
    let worker = hand.worker().await;
    for round in 0..40_u32 {
        store_some(&hand).await;
        let leased = store.lease(at(0), wants(worker, &["a"], 5)).await.unwrap();
        let ending = |place: usize| match (place + round as usize + number as usize) % 3 {
            0 => success(),
            other => dead(Cause::Network, if other == 1 { "one" } else { "two" }),
        };
        let all = leased
            .iter()
            .enumerate()
            .map(|(place, one)| Settlement { token: one.token, ending: ending(place) });
        store.settle(at(0), all.collect()).await.unwrap();
        let heads = store.letter_heads(LetterFilter::default(), 3, 9).await.unwrap().heads;
        store.redrive(at(0), heads.iter().map(|head| head.id).collect(), "redrive").await.unwrap();
        if round % 10 == 9 {
            // Folds one group while others add to it.
            let print = "print of one".to_owned();
            store.set_group_state(at(0), print, GroupState::Acknowledged, None).await.unwrap();
        }
    }
}

async fn store_some(hand: &Hand<'_>) {
    for _ in 0..3 {
        hand.add(job("a")).await;
    }
}

/// Row 39, R-D10: whoever dies, redrives, succeeds and adds up at once, in however many processes, groups count right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_count_right_while_many_add_up() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(open(shared.url(), &schema).await));
    }
    let mut writers = tokio::task::JoinSet::new();
    for (number, store) in stores.iter().cloned().enumerate() {
        writers.spawn(async move { dies_and_redrives(&store, u32::try_from(number).unwrap()).await });
    }
    bounded("all of them", writers.join_all()).await;
    // With what is not added up yet, and again when all of it is.
    for _ in 0..2 {
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for letter in stores[0].letters(LetterFilter::default(), 10_000).await.unwrap() {
            *found.entry(letter.fingerprint).or_default() += 1;
        }
        let groups = stores[1].groups(GroupQuery::default(), 9).await.unwrap();
        let said: BTreeMap<String, i64> =
            groups.into_iter().map(|group| (group.fingerprint, group.counts.letters)).collect();
        assert_eq!(said.len(), 2);
        assert!(
            said.iter().all(|(print, letters)| found.get(print).copied().unwrap_or(0) == *letters),
            "{said:?} {found:?}"
        );
        for store in &stores {
            Hand(&**store).clean().await;
        }
        added_up(shared.url(), &schema).await;
    }
    for store in stores {
        store.close().await.unwrap();
    }
}

/// Waits until nothing is left to be added up.
async fn added_up(url: &str, schema: &str) {
    let left = format!("SELECT count(*) FROM {schema}.group_delta");
    bounded("adding up", async {
        while psql(url, &left) != "0" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// R-D10: a group that was pruned in the very moment in which a letter was added to it comes back with the letter's words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_went_too_soon_comes_back() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let hand = Hand(&store);
    let worker = hand.worker().await;
    hand.letter(at(1), worker, job("a"), Cause::Network).await;
    added_up(shared.url(), &schema).await;
    // Nothing of the group is left to be counted: the letter is in a change that is not added up yet, as in that moment.
    psql(
        shared.url(),
        &format!(
            "WITH gone AS (DELETE FROM {schema}.letter_group RETURNING *) \
             INSERT INTO {schema}.group_delta SELECT fingerprint, letters, failures, under_way, recovered, relapsed, last_seen, last_seen FROM gone"
        ),
    );
    assert!(store.groups(GroupQuery::default(), 9).await.unwrap().is_empty());
    hand.add(job("wakes who adds up")).await;
    added_up(shared.url(), &schema).await;
    let group = store.groups(GroupQuery::default(), 9).await.unwrap().remove(0);
    assert_eq!((group.counts.letters, group.counts.failures, group.sample.as_str()), (1, 1, "it is dead"));
    assert_eq!((group.cause, group.last_seen), (Cause::Network, at(1)));
    hand.clean().await;
    store.close().await.unwrap();
}
